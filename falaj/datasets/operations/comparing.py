"""Comparing two versions of a dataset."""

from typing import Annotated, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Items, Message, Name, value
from falaj.datasets.operations.words import READ, ColumnName, VersionWord
from falaj.tables.schemas import Column


@value
class CompareVersions(Message):
    """`version` is the earlier one, `other` the later. `keys` are the columns that tell rows apart: with them rows that changed
    are found; without them such a row is one that was removed and one that was added."""

    project: Name
    dataset: Name
    version: VersionWord
    other: VersionWord
    keys: Annotated[tuple[ColumnName, ...], Items(most=100)] = ()


@value
class Retyped(Message):
    name: str
    before: str
    after: str


@value
class ChangedColumn(Message):
    """In how many of the rows that are in both versions it has another value."""

    name: str
    rows: int


@value
class Difference(Message):
    dataset: Name
    before: int
    after: int
    columns_added: tuple[Column, ...]
    columns_removed: tuple[Column, ...]
    columns_retyped: tuple[Retyped, ...]
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    rows_changed: int
    changed: tuple[ChangedColumn, ...]


COMPARE_VERSIONS: Final = Operation(
    name="dataset.diff",
    summary="Compare two versions of a dataset: columns, and rows that were added, removed and changed.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/diff",
    request=CompareVersions,
    result=Difference,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (COMPARE_VERSIONS,)
