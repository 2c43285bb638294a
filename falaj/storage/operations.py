"""What can be done with blobs and with a project's key."""

from typing import Annotated

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, NameOrNone, Personal, Range, Text, value

MediaType = Annotated[str, Text(pattern=r"^[a-zA-Z0-9!#$&^_.+-]+/[a-zA-Z0-9!#$&^_.+-]+$", longest=100)]
Label = Annotated[str, Text(longest=200), Personal()]
Position = Annotated[int, Range(least=0, most=2**53)]


@value
class PutBlob(Message):
    """`zone` may be left out: the project's first zone. `name` is a label for people and need not be unique."""

    project: Name
    zone: NameOrNone = ""
    name: Label = ""
    media_type: MediaType = "application/octet-stream"


@value
class Blob(Message):
    id: Id
    name: Label
    size: int
    digest: str  # SHA-256 of the content, hex
    media_type: str
    zone: str
    created: Moment
    created_by: str


@value
class GetBlob(Message):
    """`length` 0 means to the end."""

    project: Name
    blob: Id
    offset: Position = 0
    length: Position = 0


@value
class OneBlob(Message):
    project: Name
    blob: Id


@value
class ListBlobs(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Blobs(Message):
    items: tuple[Blob, ...]
    next: str = ""


@value
class BlobDropped(Message):
    """`shredded` says whether that was the last reference, so that the content is gone for good."""

    blob: Id
    shredded: bool


@value
class OneProject(Message):
    project: Name


@value
class ProjectKey(Message):
    """`version` wraps new data keys once `rotating` is over; `pending` data keys are still wrapped by older versions."""

    project: Name
    version: int
    rotating: bool
    pending: int


@value
class ShredProject(Message):
    """`confirm` repeats the project's name, because there is no way back."""

    project: Name
    confirm: Name


@value
class ProjectShredded(Message):
    project: Name
    blobs: int


BLOB_PUT = Operation(
    name="blob.put",
    summary="Store bytes, sealed under the project's key",
    method="POST",
    path="projects/{project}/blobs",
    request=PutBlob,
    result=Blob,
    permission=Permission(name="blob.put", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)

BLOB_GET = Operation(
    name="blob.get",
    summary="Read a blob's bytes, or a part of them",
    method="GET",
    path="projects/{project}/blobs/{blob}/content",
    request=GetBlob,
    result=Download,
    permission=Permission(name="blob.get", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

BLOB_SHOW = Operation(
    name="blob.show",
    summary="Show what is known about a blob",
    method="GET",
    path="projects/{project}/blobs/{blob}",
    request=OneBlob,
    result=Blob,
    permission=Permission(name="blob.show", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

BLOB_LIST = Operation(
    name="blob.list",
    summary="List a project's blobs, oldest first",
    method="GET",
    path="projects/{project}/blobs",
    request=ListBlobs,
    result=Blobs,
    permission=Permission(name="blob.list", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

BLOB_DELETE = Operation(
    name="blob.delete",
    summary="Drop your reference to a blob; the last reference takes the content with it",
    method="DELETE",
    path="projects/{project}/blobs/{blob}",
    request=OneBlob,
    result=BlobDropped,
    permission=Permission(name="blob.delete", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

BLOB_SHRED = Operation(
    name="blob.shred",
    summary="Destroy a blob now, whoever still refers to it",
    method="POST",
    path="projects/{project}/blobs/{blob}/shred",
    request=OneBlob,
    result=BlobDropped,
    permission=Permission(name="blob.shred", group=Group.ADMINISTER),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

KEY_SHOW = Operation(
    name="key.show",
    summary="Show how far a project's key is in use and in rotation",
    method="GET",
    path="projects/{project}/key",
    request=OneProject,
    result=ProjectKey,
    permission=Permission(name="key.show", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

KEY_ROTATE = Operation(
    name="key.rotate",
    summary="Give the project a new key; data keys are wrapped anew in the background while everything stays readable",
    method="POST",
    path="projects/{project}/key/rotate",
    request=OneProject,
    result=ProjectKey,
    permission=Permission(name="key.rotate", group=Group.ADMINISTER),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

KEY_SHRED = Operation(
    name="key.shred",
    summary="Destroy the project's key and with it everything the project ever stored",
    method="POST",
    path="projects/{project}/key/shred",
    request=ShredProject,
    result=ProjectShredded,
    permission=Permission(name="key.shred", group=Group.ADMINISTER),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS = (BLOB_PUT, BLOB_GET, BLOB_SHOW, BLOB_LIST, BLOB_DELETE, BLOB_SHRED, KEY_SHOW, KEY_ROTATE, KEY_SHRED)
