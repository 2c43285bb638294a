"""What can be done with comments."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, Nothing, value
from falaj.collaboration.operations.words import READ, WRITE, Kind, Person, Thing, ThingId, Words


@value
class AddComment(Message):
    """Plain text. `@name` mentions a member of the project, who gets a notice; any other `@name` is text like the rest."""

    project: Name
    kind: Kind
    thing: ThingId
    text: Words


@value
class Comment(Message):
    """`mentions` are the members whom the text names, in its order."""

    id: Id
    thing: Thing
    author: Person
    text: str
    mentions: tuple[Person, ...]
    created: Moment
    edited: Moment | None


@value
class ListComments(Message):
    project: Name
    kind: Kind
    thing: ThingId
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Comments(Message):
    items: tuple[Comment, ...]
    next: str = ""


@value
class EditComment(Message):
    project: Name
    comment: Id
    text: Words


@value
class OneComment(Message):
    project: Name
    comment: Id


ADD_COMMENT: Final = Operation(
    name="comment.add",
    summary="Comment on an experiment, a run, a model or a version.",
    method="POST",
    path="projects/{project}/comments",
    request=AddComment,
    result=Comment,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_COMMENTS: Final = Operation(
    name="comment.list",
    summary="List the comments on one thing, oldest first.",
    method="GET",
    path="projects/{project}/comments",
    request=ListComments,
    result=Comments,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
EDIT_COMMENT: Final = Operation(
    name="comment.edit",
    summary="Change your own comment; members it mentions only now get a notice.",
    method="PUT",
    path="projects/{project}/comments/{comment}",
    request=EditComment,
    result=Comment,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_COMMENT: Final = Operation(
    name="comment.delete",
    summary="Delete your own comment.",
    method="DELETE",
    path="projects/{project}/comments/{comment}",
    request=OneComment,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
REMOVE_COMMENT: Final = Operation(
    name="comment.remove",
    summary="Remove a comment, whoever wrote it.",
    method="POST",
    path="projects/{project}/comments/{comment}/remove",
    request=OneComment,
    result=Nothing,
    permission=Permission(name="comment.remove", group=Group.ADMINISTER),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (ADD_COMMENT, LIST_COMMENTS, EDIT_COMMENT, DELETE_COMMENT, REMOVE_COMMENT)
