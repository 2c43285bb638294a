"""What can be done with artifacts: sealed files of a run or of a logged model, each under a relative name."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Limit
from falaj.base.values import Id, Items, Message, Name, NameOrNone, Nothing, Range, Text, value
from falaj.tracking.operations.words import Holder

# Parts joined by single slashes, none of them empty, `.` or `..`; no backslash, no control character and no line separator
# anywhere, nor half a surrogate pair, which is no text.
_PART: Final = r"(?!\.{1,2}(?:/|$))[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"
ARTIFACT_PATTERN: Final = rf"^{_PART}(?:/{_PART})*$"
ArtifactName = Annotated[str, Text(shortest=1, longest=1000)]  # the pattern is held against it where names are read
FolderName = Annotated[str, Text(longest=1000)]
# A cursor holds a whole name.
NameCursor = Annotated[str, Text(longest=3000)]
Position = Annotated[int, Range(least=0, most=2**53)]
PartNumber = Annotated[int, Range(least=1, most=10_000)]


@value
class PutArtifact(Message):
    """`zone` may be left out: the project's first zone. An artifact of the same name is replaced."""

    project: Name
    holder: Holder
    name: ArtifactName
    zone: NameOrNone = ""


@value
class Artifact(Message):
    name: ArtifactName
    size: int
    digest: str
    blob: Id
    created: Moment
    created_by: str


@value
class GetArtifact(Message):
    """`length` 0 means to the end."""

    project: Name
    holder: Holder
    name: ArtifactName
    offset: Position = 0
    length: Position = 0


@value
class ListArtifacts(Message):
    """`folder` is empty for the top. `deep` lists all files below it instead of one level."""

    project: Name
    holder: Holder
    folder: FolderName = ""
    deep: bool = False
    limit: Limit = 1000
    cursor: NameCursor = ""


@value
class Entry(Message):
    """A file, or a folder with files below it; a folder has no size and no digest."""

    name: ArtifactName
    folder: bool
    size: int = 0
    digest: str = ""


@value
class Artifacts(Message):
    items: tuple[Entry, ...]
    next: str = ""


@value
class DeleteArtifacts(Message):
    """Deletes the file of that name, or every file below the folder of that name; everything, where it is empty."""

    project: Name
    holder: Holder
    name: FolderName = ""


@value
class ArtifactsDeleted(Message):
    count: int


@value
class BeginUpload(Message):
    """A large artifact in parts: begin, put the parts in any order, finish. Nothing is visible before it is finished."""

    project: Name
    holder: Holder
    name: ArtifactName


@value
class Upload(Message):
    id: Id
    expires: Moment


@value
class PutPart(Message):
    project: Name
    upload: Id
    part: PartNumber


@value
class Part(Message):
    part: PartNumber
    size: int
    digest: str


@value
class FinishUpload(Message):
    """`parts` names all parts in their order, with their digests as `artifact.put-part` gave them."""

    project: Name
    upload: Id
    parts: Annotated[tuple[Part, ...], Items(least=1, most=10_000)]


@value
class OneUpload(Message):
    project: Name
    upload: Id


_WRITE: Final = Permission(name="artifact.write", group=Group.WRITE)
_READ: Final = Permission(name="artifact.read", group=Group.READ)

PUT_ARTIFACT: Final = Operation(
    name="artifact.put",
    summary="Store a file of a run or a logged model, sealed under the project's key.",
    method="PUT",
    path="projects/{project}/artifacts/{holder}/file",
    request=PutArtifact,
    result=Artifact,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)
GET_ARTIFACT: Final = Operation(
    name="artifact.get",
    summary="Read a file of a run or a logged model, or a part of it.",
    method="GET",
    path="projects/{project}/artifacts/{holder}/file",
    request=GetArtifact,
    result=Download,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
LIST_ARTIFACTS: Final = Operation(
    name="artifact.list",
    summary="List the files of a run or a logged model.",
    method="GET",
    path="projects/{project}/artifacts/{holder}",
    request=ListArtifacts,
    result=Artifacts,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_ARTIFACTS: Final = Operation(
    name="artifact.delete",
    summary="Delete a file, or a folder of files; registered versions made of them keep theirs.",
    method="DELETE",
    path="projects/{project}/artifacts/{holder}",
    request=DeleteArtifacts,
    result=ArtifactsDeleted,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
BEGIN_UPLOAD: Final = Operation(
    name="artifact.begin-upload",
    summary="Begin to store a large artifact in parts.",
    method="POST",
    path="projects/{project}/artifacts/{holder}/uploads",
    request=BeginUpload,
    result=Upload,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PUT_PART: Final = Operation(
    name="artifact.put-part",
    summary="Store one part of a large artifact.",
    method="PUT",
    path="projects/{project}/artifact-uploads/{upload}/parts/{part}",
    request=PutPart,
    result=Part,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="upload",
    takes_bytes=True,
)
FINISH_UPLOAD: Final = Operation(
    name="artifact.finish-upload",
    summary="Join the parts into one artifact, which becomes visible now.",
    method="POST",
    path="projects/{project}/artifact-uploads/{upload}",
    request=FinishUpload,
    result=Artifact,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ABORT_UPLOAD: Final = Operation(
    name="artifact.abort-upload",
    summary="Forget an upload and its parts.",
    method="DELETE",
    path="projects/{project}/artifact-uploads/{upload}",
    request=OneUpload,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    PUT_ARTIFACT,
    GET_ARTIFACT,
    LIST_ARTIFACTS,
    DELETE_ARTIFACTS,
    BEGIN_UPLOAD,
    PUT_PART,
    FINISH_UPLOAD,
    ABORT_UPLOAD,
)
