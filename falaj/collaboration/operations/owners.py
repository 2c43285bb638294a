"""What can be done about owners: who answers for an experiment, a run or a registered model."""

from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Message, Name, value
from falaj.collaboration.operations.words import READ, WRITE, Person, Thing, ThingId, ThingOrNone, WhomOrNone

OwnedKind = Literal["experiment", "run", "model"]
OwnedKindOrNone = Literal["", "experiment", "run", "model"]


@value
class SetOwner(Message):
    """An empty `owner` leaves the thing without one."""

    project: Name
    kind: OwnedKind
    thing: ThingId
    owner: WhomOrNone = ""


@value
class Ownership(Message):
    """`owner` is None where there is none."""

    thing: Thing
    owner: Person | None
    since: Moment


@value
class ListOwners(Message):
    """All that is owned; or what one member owns; or the owner of one thing, named by kind and thing together."""

    project: Name
    owner: WhomOrNone = ""
    kind: OwnedKindOrNone = ""
    thing: ThingOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Ownerships(Message):
    items: tuple[Ownership, ...]
    next: str = ""


SET_OWNER: Final = Operation(
    name="owner.set",
    summary="Say which member of the project answers for an experiment, a run or a model.",
    method="PUT",
    path="projects/{project}/owners",
    request=SetOwner,
    result=Ownership,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_OWNERS: Final = Operation(
    name="owner.list",
    summary="List who answers for what.",
    method="GET",
    path="projects/{project}/owners",
    request=ListOwners,
    result=Ownerships,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (SET_OWNER, LIST_OWNERS)
