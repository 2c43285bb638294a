"""External datasets: tables that stay where they are, pinned as they were when somebody looked."""

from typing import Annotated, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Items, Message, Name, Text, value
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import WRITE, ColumnName, Description, ExternalKind, TableName

_Word = Annotated[str, Text(longest=40)]


@value
class ColumnType(Message):
    column: ColumnName
    type: _Word


@value
class RegisterTable(Message):
    """`table` is what the place calls it: a folder below its prefix, or `schema.table` of a database. `at` is a version of a
    Delta table or a snapshot of an Iceberg table; without it the newest is taken.

    `time_zone` is where the clocks hung that wrote times without an offset; `types` are for columns of a database that have no
    exact type of their own, such as `decimal(38, 10)` for a numeric without a scale.
    """

    project: Name
    dataset: Name
    place: Name
    table: TableName
    kind: ExternalKind
    at: Annotated[str, Text(pattern=r"^[0-9]*$", longest=20, says="must be a version's or a snapshot's number")] = ""
    description: Description = ""
    time_zone: _Word = ""
    types: Annotated[tuple[ColumnType, ...], Items(most=1000)] = ()


@value
class Registration(Message):
    """How far it is: `done` of `of` files were read. A large table takes several calls, each of which goes on where the last
    one was; `version` is there once all were read."""

    dataset: Name
    done: int
    of: int
    version: Version | None = None


REGISTER_TABLE: Final = Operation(
    name="dataset.register",
    summary="Pin a table that stays where it is. It is read once, some of it with each call.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/register",
    request=RegisterTable,
    result=Registration,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
REFRESH_TABLE: Final = Operation(
    name="dataset.refresh",
    summary="Pin the newest state of an external dataset's table as a new version.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/refresh",
    request=OneDataset,
    result=Registration,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (REGISTER_TABLE, REFRESH_TABLE)
