"""Comparing two versions of a dataset."""

from typing import Annotated, Any, Final

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
class Shift(Message):
    """How far a column's values moved: `distance` is 0 where they are distributed alike and 1 where they have nothing in
    common; None where that cannot be said. The pairs are before and after; of values, where both versions have such."""

    name: str
    distance: float | None
    nulls: tuple[float, float]
    distinct: tuple[int, int] | None
    mean: tuple[Any, Any] | None


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
    shifts: tuple[Shift, ...]


COMPARE_VERSIONS: Final = Operation(
    name="dataset.diff",
    summary="Compare two versions of a dataset: columns, distributions, and rows that were added, removed and changed.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/diff",
    request=CompareVersions,
    result=Difference,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (COMPARE_VERSIONS,)
