"""What pages about one thing share: its owner, comments on it, reviews of it, and links to share."""

from collections.abc import Callable
from typing import Any, Final

from falaj.base.operation import Group
from falaj.collaboration.operations import comments, links, owners, reviews
from falaj.governance.identity import member_operations as members
from falaj.web.forms import checked
from falaj.web.guards import local_path
from falaj.web.pages import Form, Load
from falaj.web.sitemap.asking import may_here
from falaj.web.visits import Visit

MEMBERS: Final = Load(
    operation=members.LIST_MEMBERS,
    request=lambda visit: members.ListMembers(project=visit.project, limit=1000),
    when=may_here(Group.READ),
)


def about(kind: str, thing: Callable[[Visit], Any]) -> dict[str, Load]:
    """The loads of a page about one thing. `thing` says its id, once what comes before is loaded."""

    def asking(operation: Any) -> Callable[[Visit], Any]:
        return lambda visit: checked(operation, {"project": visit.project, "kind": kind, "thing": str(thing(visit))})

    asked: dict[str, Any] = {"comments": comments.LIST_COMMENTS}
    if kind != "version":
        asked["owners"] = owners.LIST_OWNERS
    if kind in ("run", "version"):
        asked["reviews"] = reviews.LIST_REVIEWS
    loads = {name: Load(operation=each, request=asking(each), when=may_here(Group.READ)) for name, each in asked.items()}
    return loads | {"members": MEMBERS}


def forms(then: Callable[[Visit, Any], str]) -> tuple[Form, ...]:
    return (
        Form(operation=comments.ADD_COMMENT, then=then, beside=True),
        Form(operation=comments.EDIT_COMMENT, then=then),
        Form(operation=comments.DELETE_COMMENT, then=then),
        Form(operation=comments.REMOVE_COMMENT, then=then),
        Form(operation=reviews.REQUEST_REVIEW, then=then, beside=True),
        Form(operation=reviews.ANSWER_REVIEW, then=then, beside=True),
        Form(operation=reviews.WITHDRAW_REVIEW, then=then),
        Form(operation=owners.SET_OWNER, then=then),
        Form(operation=links.CREATE_LINK, then=shared),
    )


def shared(_visit: Visit, made: links.Link) -> str:
    """Back on the page that was shared, which now shows the link."""
    path = local_path(made.path)
    return f"{path}{'&' if '?' in path else '?'}shared={made.id}"


DONE: Final = {
    comments.ADD_COMMENT.name: "Your comment is there; whom it mentions was told.",
    comments.EDIT_COMMENT.name: "Your comment was changed.",
    comments.DELETE_COMMENT.name: "Your comment is gone.",
    comments.REMOVE_COMMENT.name: "The comment is gone.",
    reviews.REQUEST_REVIEW.name: "The review was asked for; it shows on that person's home page.",
    reviews.ANSWER_REVIEW.name: "Your review was given.",
    reviews.WITHDRAW_REVIEW.name: "The review is not wanted any more.",
    owners.SET_OWNER.name: "The owner was set.",
    links.CREATE_LINK.name: "The link is made. It opens for those who may read this project.",
}
