"""What can be done with notices: what others did in a project that is addressed to the caller."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, value
from falaj.collaboration.operations.words import READ, Person, Thing

NoticeKind = Literal["mention", "review-request", "review-answer"]


@value
class ListNotices(Message):
    project: Name
    unread: bool = False
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Notice(Message):
    """`about` is the id of the comment or review, `excerpt` the beginning of what was written there."""

    id: Id
    kind: NoticeKind
    thing: Thing
    by: Person
    about: Id
    excerpt: str
    at: Moment
    read: bool


@value
class Notices(Message):
    """`unread` is how many are unread in the whole project."""

    items: tuple[Notice, ...]
    unread: int
    next: str = ""


@value
class MarkRead(Message):
    """Without ids: all of them."""

    project: Name
    notices: Annotated[tuple[Id, ...], Items(most=1000)] = ()


@value
class Marked(Message):
    """`unread` is how many are left."""

    unread: int


LIST_NOTICES: Final = Operation(
    name="notice.list",
    summary="List what others addressed to you in a project, newest first.",
    method="GET",
    path="projects/{project}/notices",
    request=ListNotices,
    result=Notices,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
MARK_READ: Final = Operation(
    name="notice.read",
    summary="Mark your notices as read.",
    method="POST",
    path="projects/{project}/notices/read",
    request=MarkRead,
    result=Marked,
    permission=Permission(name="notice.read", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
)

OPERATIONS: Final = (LIST_NOTICES, MARK_READ)
