"""What can be done with versions that there are: looking at them, and going back to one."""

from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, value
from falaj.datasets.operations.derivations import Derivation
from falaj.datasets.operations.words import READ, WRITE, CheckKind, CheckName, ColumnName, Origin, Severity, VersionWord
from falaj.tables.schemas import Column


@value
class Finding(Message):
    """What a check found; of `rows` rows it does not hold."""

    check: CheckName
    kind: CheckKind
    severity: Severity
    rows: int
    says: str


@value
class Version(Message):
    """An immutable list of parts. `parent` is the number of the version it was made from; 0: from none.

    `digest` is over the columns and the content of the parts: equal rows in equal parts have equal digests. `lineage` is what
    lineage calls it, and what a run's input has to be called to be joined to it. Since `pruned` it cannot be read any more.
    One that is `quarantined` failed a check: it was not published, and is nobody's current version. `findings` are of the
    checks that were broken when it was made. `derivation` is what it was made of, where it was made of other versions.
    """

    id: Id
    dataset: Name
    version: int
    current: bool
    parent: int
    mode: Literal["append", "overwrite", "merge", "delete", "rename", "restore", "compact", "release", "pin"]
    columns: tuple[Column, ...]
    rows: int
    parts: int
    size: int
    digest: str
    lineage: str
    zone: str
    origin: Origin
    tags: tuple[str, ...]
    created: Moment
    created_by: str
    pruned: Moment | None = None
    quarantined: bool = False
    findings: tuple[Finding, ...] = ()
    derivation: Derivation | None = None


@value
class OneVersion(Message):
    """`version` is a number, a tag, or `current`."""

    project: Name
    dataset: Name
    version: VersionWord


@value
class ListVersions(Message):
    project: Name
    dataset: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Versions(Message):
    items: tuple[Version, ...]
    next: str = ""


@value
class RenameColumns(Message):
    """`renames`: what columns are called, and what they shall be called."""

    project: Name
    dataset: Name
    renames: dict[ColumnName, ColumnName]


SHOW_VERSION: Final = Operation(
    name="dataset.version",
    summary="Show a version of a dataset: columns, rows, digest, where it came from.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/versions/{version}",
    request=OneVersion,
    result=Version,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_VERSIONS: Final = Operation(
    name="dataset.versions",
    summary="List the versions of a dataset, newest first.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/versions",
    request=ListVersions,
    result=Versions,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
RESTORE_VERSION: Final = Operation(
    name="dataset.restore",
    summary="Make a new version that equals an earlier one; nothing in between is lost.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/restore",
    request=OneVersion,
    result=Version,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RENAME_COLUMNS: Final = Operation(
    name="dataset.rename-columns",
    summary="Make a new version whose columns have other names; no data is rewritten, and earlier versions keep theirs.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/columns",
    request=RenameColumns,
    result=Version,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (SHOW_VERSION, LIST_VERSIONS, RESTORE_VERSION, RENAME_COLUMNS)
