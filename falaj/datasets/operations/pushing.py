"""Pushing rows as they happen: each push is durable when it is answered, and what has come together becomes one version."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Message, Name, Range, Text, value
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import READ, WRITE

# A token for a device or a service that only brings rows needs no more than this.
PUSH: Final = Permission(name="dataset.push", group=Group.WRITE)

PushKey = Annotated[str, Text(pattern=r"^[A-Za-z0-9_-]*$", longest=64)]


@value
class PushRows(Message):
    """The rows are the body: JSON lines, or an Arrow stream. They have the columns of the dataset; those that can be null may
    be left out. Where the dataset has no version yet, the first push decides them; `create`: one that is not there is made.

    With a `key` of the caller's choice the same rows sent again count once, for two days after they were published. Times
    without an offset are refused unless `time_zone` says whose clocks wrote them. `first_line` is what messages call the first.
    """

    project: Name
    dataset: Name
    format: Literal["jsonl", "arrow"] = "jsonl"
    key: PushKey = ""
    time_zone: Annotated[str, Text(longest=40)] = ""
    first_line: Annotated[int, Range(least=1, most=2**53)] = 1
    create: bool = False


@value
class Pushed(Message):
    """A push that will not be lost. `accepted` is when its rows became known. `again`: it had come before, by the same key."""

    push: Id
    dataset: Name
    rows: int
    accepted: Moment
    again: bool = False


@value
class AskAboutPushes(Message):
    """`key` asks about one push of the caller's as well."""

    project: Name
    dataset: Name
    key: PushKey = ""


@value
class PushState(Message):
    """`version` is what it became a part of, where it is `published` or `quarantined`; of one that is `stuck`, `error` says why
    it fits no version."""

    push: Id
    state: Literal["waiting", "published", "quarantined", "stuck"]
    rows: int
    accepted: Moment
    version: int = 0
    error: str = ""


@value
class Pushes(Message):
    """What was pushed to a dataset and is in no version yet: `waiting` for the next one since `since`, or `stuck`, because the
    dataset's columns changed since. `error` is what the last attempt at a version failed for. `version` is the newest that was
    made of pushes."""

    dataset: Name
    waiting: int
    waiting_rows: int
    waiting_bytes: int
    since: Moment | None
    stuck: int
    stuck_rows: int
    error: str
    version: int
    push: PushState | None = None


@value
class DropPushes(Message):
    """`waiting`: not only what is stuck, but also what waits for its version."""

    project: Name
    dataset: Name
    waiting: bool = False


@value
class PushesDropped(Message):
    pushes: Annotated[int, Range(least=0, most=2**53)]
    rows: int


PUSH_ROWS: Final = Operation(
    name="dataset.push",
    summary="Bring a few rows, as JSON lines or an Arrow stream; soon they are in a version, with what else has come.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/pushes",
    request=PushRows,
    result=Pushed,
    permission=PUSH,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="dataset",
    takes_bytes=True,
)
SHOW_PUSHES: Final = Operation(
    name="dataset.pushed",
    summary="Show what was pushed to a dataset and waits for a version, or what became of one push.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/pushes",
    request=AskAboutPushes,
    result=Pushes,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FLUSH_PUSHES: Final = Operation(
    name="dataset.flush",
    summary="Make a version of the rows that were pushed and wait, now; the platform does so by itself every few seconds.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/flush",
    request=OneDataset,
    result=Version,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DROP_PUSHES: Final = Operation(
    name="dataset.drop-pushes",
    summary="Give up pushed rows that fit no version any more; they are shredded.",
    method="DELETE",
    path="projects/{project}/datasets/{dataset}/pushes",
    request=DropPushes,
    result=PushesDropped,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (PUSH_ROWS, SHOW_PUSHES, FLUSH_PUSHES, DROP_PUSHES)
