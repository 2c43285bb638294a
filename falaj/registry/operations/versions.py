"""What can be done with versions of registered models: immutable, signed snapshots of files, named by model and number."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, Nothing, Number, Personal, Text, value
from falaj.registry.operations.words import (
    Description,
    FileName,
    Filter,
    FolderName,
    HolderOrNone,
    ModelName,
    ModelNameOrNone,
    ModelTag,
    ModelTags,
    Order,
    Position,
    RunIdOrNone,
    Stage,
    TagKey,
    TagValue,
    VersionNumber,
    WishedNumber,
)

Source = Annotated[str, Text(longest=2000), Personal()]


@value
class CreateVersion(Message):
    """Registers the files below `folder` of `holder`, a run or a logged model, as they are now.

    Without a holder, `source` says where the files are: it is written down and never opened, and the version cannot be
    served. With one, `source` is what the client called it. `version` 0 is the next number; another number may leave some
    out and never goes back, so that versions can be brought over from elsewhere.
    """

    project: Name
    model: ModelName
    holder: HolderOrNone = ""
    folder: FolderName = ""
    source: Source = ""
    run: RunIdOrNone = ""
    description: Description = ""
    tags: ModelTags = ()
    version: WishedNumber = 0


@value
class Version(Message):
    """`id` never changes, `model` does when the model is renamed. `logged_model` is the holder where that is a logged model.

    `inputs` and `outputs` are the columns or tensors of the model's signature, as JSON, empty without one.
    `servable` says whether the platform can serve it as it is, `convertible` that a deployment converts it first where it
    cannot; `version.servable` says why.
    """

    id: Id
    model: ModelName
    version: VersionNumber
    description: Description
    stage: Stage
    aliases: tuple[str, ...]
    tags: tuple[ModelTag, ...]
    source: Source
    holder: str
    folder: str
    logged_model: str
    run: str
    files: int
    size: int
    digest: str  # SHA-256 over the names and digests of all files; empty where the files are not in Falaj
    signed: bool
    servable: bool
    convertible: bool = False
    runtime: str
    flavors: tuple[str, ...]
    inputs: str
    outputs: str
    created: Moment
    changed: Moment
    created_by: str


@value
class OneVersion(Message):
    project: Name
    model: ModelName
    version: VersionNumber


@value
class FindVersion(Message):
    project: Name
    id: Id


@value
class SearchVersions(Message):
    """`filter` and `order` are MLflow's language: `name = 'fraud' AND tags.passed = 'yes'`, `version_number DESC`."""

    project: Name
    filter: Filter = ""
    order: Order = ()
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Versions(Message):
    items: tuple[Version, ...]
    next: str = ""


@value
class DescribeVersion(Message):
    project: Name
    model: ModelName
    version: VersionNumber
    description: Description


@value
class TagVersion(Message):
    project: Name
    model: ModelName
    version: VersionNumber
    key: TagKey
    value: TagValue = ""


@value
class UntagVersion(Message):
    project: Name
    model: ModelName
    version: VersionNumber
    key: TagKey


@value
class ListVersionFiles(Message):
    project: Name
    model: ModelName
    version: VersionNumber
    limit: Limit = 1000
    cursor: Cursor = ""


@value
class VersionFile(Message):
    name: FileName
    size: int
    digest: str  # SHA-256 of the content, hex


@value
class VersionFiles(Message):
    items: tuple[VersionFile, ...]
    next: str = ""


@value
class GetVersionFile(Message):
    """`length` 0 means to the end."""

    project: Name
    model: ModelName
    version: VersionNumber
    name: FileName
    offset: Position = 0
    length: Position = 0


@value
class Verification(Message):
    """`ok` only where the signature holds and every file's bytes are those that were signed; `problems` says what is wrong.

    `public_key` (PEM) and the file of `version.signature` are what `model_signing verify key` wants beside the files.
    """

    model: ModelName
    version: VersionNumber
    ok: bool
    signed: bool
    problems: tuple[str, ...]
    files: int
    size: int
    key: str
    public_key: str


@value
class ServableCheck(Message):
    """Whether the platform can serve a version as it is, with which runtime, and where it cannot, precisely why, and whether a
    deployment converts it first."""

    model: ModelName
    version: VersionNumber
    ok: bool
    convertible: bool = False
    runtime: str
    reasons: tuple[str, ...]


@value
class DiffVersions(Message):
    """Compares `version` with `other`, of the same model unless `other_model` names another."""

    project: Name
    model: ModelName
    version: VersionNumber
    other: VersionNumber
    other_model: ModelNameOrNone = ""


@value
class FileChange(Message):
    name: str
    change: Literal["added", "removed", "changed"]
    size: int | None  # before; None where it was not there
    other_size: int | None


@value
class TextChange(Message):
    """A value before and after; None where there was none."""

    key: str
    value: str | None
    other: str | None


@value
class MetricChange(Message):
    key: str
    value: Number | None
    other: Number | None


@value
class DataVersion(Message):
    """Data that a run used; `digest` tells its versions apart."""

    name: str
    digest: str


@value
class VersionDiff(Message):
    """What differs from `version` to `other`; what is the same is left out. `signature` holds inputs, outputs and runtime."""

    version: Version
    other: Version
    files: tuple[FileChange, ...]
    signature: tuple[TextChange, ...]
    params: tuple[TextChange, ...]
    metrics: tuple[MetricChange, ...]
    data_before: tuple[DataVersion, ...]
    data_after: tuple[DataVersion, ...]


_WRITE: Final = Permission(name="version.write", group=Group.WRITE)
_READ: Final = Permission(name="version.read", group=Group.READ)

CREATE_VERSION: Final = Operation(
    name="version.create",
    summary="Register a version: a signed snapshot of a run's or a logged model's files.",
    method="POST",
    path="projects/{project}/versions",
    request=CreateVersion,
    result=Version,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_VERSION: Final = Operation(
    name="version.show",
    summary="Show a version.",
    method="GET",
    path="projects/{project}/version",
    request=OneVersion,
    result=Version,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FIND_VERSION: Final = Operation(
    name="version.find",
    summary="Show the version with this id.",
    method="GET",
    path="projects/{project}/versions/{id}",
    request=FindVersion,
    result=Version,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SEARCH_VERSIONS: Final = Operation(
    name="version.search",
    summary="Search versions of all models, most recently changed first unless ordered otherwise.",
    method="POST",
    path="projects/{project}/versions/search",
    request=SearchVersions,
    result=Versions,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DESCRIBE_VERSION: Final = Operation(
    name="version.describe",
    summary="Set a version's description.",
    method="PUT",
    path="projects/{project}/version/description",
    request=DescribeVersion,
    result=Version,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_VERSION: Final = Operation(
    name="version.delete",
    summary="Delete a version and its files; refused while an alias points at it. Its number is never given again.",
    method="DELETE",
    path="projects/{project}/version",
    request=OneVersion,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
TAG_VERSION: Final = Operation(
    name="version.tag",
    summary="Set a tag of a version.",
    method="PUT",
    path="projects/{project}/version/tags",
    request=TagVersion,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNTAG_VERSION: Final = Operation(
    name="version.untag",
    summary="Remove a tag of a version.",
    method="DELETE",
    path="projects/{project}/version/tags",
    request=UntagVersion,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_VERSION_FILES: Final = Operation(
    name="version.files",
    summary="List a version's files with their sizes and digests.",
    method="GET",
    path="projects/{project}/version/files",
    request=ListVersionFiles,
    result=VersionFiles,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
GET_VERSION_FILE: Final = Operation(
    name="version.file",
    summary="Read a file of a version, or a part of it; refused where the signature does not hold.",
    method="GET",
    path="projects/{project}/version/file",
    request=GetVersionFile,
    result=Download,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
GET_SIGNATURE: Final = Operation(
    name="version.signature",
    summary="Read a version's signature, a model.sig for the `model_signing` command.",
    method="GET",
    path="projects/{project}/version/signature",
    request=OneVersion,
    result=Download,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
GET_SBOM: Final = Operation(
    name="version.sbom",
    summary="Read a version's software bill of materials (CycloneDX JSON).",
    method="GET",
    path="projects/{project}/version/sbom",
    request=OneVersion,
    result=Download,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
VERIFY_VERSION: Final = Operation(
    name="version.verify",
    summary="Verify a version's signature and the bytes of every file.",
    method="POST",
    path="projects/{project}/version/verify",
    request=OneVersion,
    result=Verification,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
CHECK_SERVABLE: Final = Operation(
    name="version.servable",
    summary="Say whether a version can be served, and if not, why.",
    method="GET",
    path="projects/{project}/version/servable",
    request=OneVersion,
    result=ServableCheck,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DIFF_VERSIONS: Final = Operation(
    name="version.diff",
    summary="Compare two versions: files, signature, parameters, metrics and data.",
    method="GET",
    path="projects/{project}/version/diff",
    request=DiffVersions,
    result=VersionDiff,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (
    CREATE_VERSION,
    SHOW_VERSION,
    FIND_VERSION,
    SEARCH_VERSIONS,
    DESCRIBE_VERSION,
    DELETE_VERSION,
    TAG_VERSION,
    UNTAG_VERSION,
    LIST_VERSION_FILES,
    GET_VERSION_FILE,
    GET_SIGNATURE,
    GET_SBOM,
    VERIFY_VERSION,
    CHECK_SERVABLE,
    DIFF_VERSIONS,
)
