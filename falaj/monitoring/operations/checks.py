"""Holding one version of a dataset against another, by the rule that traffic is judged by."""

from typing import Annotated, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Items, Message, Name, Number, Range, value
from falaj.datasets.operations.words import READ, DatasetRef
from falaj.monitoring.operations.monitors import MOST_COLUMNS, Share
from falaj.monitoring.operations.words import ColumnName, Sentence, Told

MOST_SAMPLED: Final = 5000


@value
class CheckVersion(Message):
    """Whether rows of `dataset` are still what those of `reference` were.

    A column drifts where it is at least `floor` away, and chance explains that less often than once in `one_in` checks, all
    columns together. Columns in `ignore` are left out. With `sampled`, so many rows of each are also told apart by all columns
    together, which finds what no single column shows."""

    project: Name
    dataset: DatasetRef
    reference: DatasetRef
    ignore: Annotated[tuple[ColumnName, ...], Items(most=MOST_COLUMNS)] = ()
    floor: Share = 0.1
    one_in: Annotated[int, Range(least=10, most=1_000_000)] = 1000
    sampled: Annotated[int, Range(least=0, most=MOST_SAMPLED)] = 0


@value
class CheckedColumn(Message):
    """`distances` are by name: `ks`, `wasserstein` (in the column's unit), `psi`, `jensen-shannon`, `cramers-v` (Cramer's V,
    from 0 to 1); the first two are of numbers alone."""

    told: Told
    distances: dict[str, float]


@value
class ChangedColumn(Message):
    """A column that is gone (`after` is empty), new (`before` is), or of another type."""

    column: str
    before: str
    after: str


@value
class ColumnWeight(Message):
    column: str
    weight: Number


@value
class RowsApart(Message):
    """`area` is how often a row of the one was told from a row of the other, 0.5 where they cannot be; `chance` how often rows
    of one source would be told apart as well. `columns` are those that it takes most."""

    rows: int
    area: Number
    chance: Number
    columns: tuple[ColumnWeight, ...]
    drifting: bool


@value
class Check(Message):
    """`dataset` and `reference` with the versions that were read. `columns`, the furthest first; `uncounted` are those of types
    that nobody counts, and those that changed theirs from number to text or back. `drifting` says that any column drifts, or
    all rows together; `changed` are not drift."""

    dataset: str
    reference: str
    rows: int
    reference_rows: int
    columns: tuple[CheckedColumn, ...]
    changed: tuple[ChangedColumn, ...]
    uncounted: tuple[str, ...]
    together: RowsApart | None
    drifting: bool
    sentence: Sentence


CHECK_VERSION: Final = Operation(
    name="monitor.check",
    summary="Hold a version of a dataset against another: which columns drifted, and how far.",
    method="POST",
    path="projects/{project}/monitor-checks",
    request=CheckVersion,
    result=Check,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
OPERATIONS: Final = (CHECK_VERSION,)
