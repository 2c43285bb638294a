"""What can be asked about what happened lately in a project."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, value
from falaj.collaboration.operations.words import Person, Thing


@value
class ListActivity(Message):
    project: Name
    limit: Limit = 50
    cursor: Cursor = ""


@value
class Happening(Message):
    """`did` is a sentence without its subject: `created an experiment`. `times` is how often in a row.

    `thing` is None where it was about none, or where its details are for administrators.
    """

    id: Id
    by: Person
    operation: str
    did: str
    thing: Thing | None
    times: int
    at: Moment


@value
class Activity(Message):
    """A page may be short and still not be the last: that is the one without `next`."""

    items: tuple[Happening, ...]
    next: str = ""


LIST_ACTIVITY: Final = Operation(
    name="activity.list",
    summary="List what was changed in a project, newest first.",
    method="GET",
    path="projects/{project}/activity",
    request=ListActivity,
    result=Activity,
    permission=Permission(name="activity.read", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (LIST_ACTIVITY,)
