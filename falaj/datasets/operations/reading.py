"""Reading: a grant of the keys and the sealed bytes for programs; rows for people."""

from typing import Annotated, Any, Final

from falaj.base.operation import Download, Operation, Record, Scope
from falaj.base.values import Id, Items, Message, Name, Personal, Range, Secret, Text, value
from falaj.datasets.operations.words import READ, ColumnName, DatasetRef, Position, VersionWord
from falaj.tables.schemas import Column

MOST_ROWS: Final = 10_000


@value
class GrantRead(Message):
    """`version` is a number, a tag, or `current`."""

    project: Name
    dataset: Name
    version: VersionWord


@value
class GrantedPart(Message):
    """`object` is bound into the sealing of the part, `key` opens it: 64 hex digits. `renamed` says what columns are called
    now, by the names they were stored under."""

    id: Id
    object: Id
    rows: int
    size: int
    digest: str
    key: Annotated[str, Secret()]
    renamed: dict[str, str] | None = None


@value
class ReadGrant(Message):
    """Everything that is needed to read one version: its columns, and its parts in their order."""

    dataset: Name
    version: int
    columns: tuple[Column, ...]
    rows: int
    digest: str
    lineage: str
    parts: tuple[GrantedPart, ...]


@value
class ReadPart(Message):
    """`length` 0 means to the end."""

    project: Name
    dataset: Name
    part: Id
    offset: Position = 0
    length: Position = 0


@value
class Query(Message):
    """One SELECT. `tables` are the versions it may see, each under the name it is given by; where none are said, those whose
    names stand in the text. A version, or a name with a dash, is quoted: `SELECT * FROM "flights@3"`."""

    project: Name
    sql: Annotated[str, Text(shortest=1, longest=100_000), Personal()]
    tables: Annotated[tuple[DatasetRef, ...], Items(most=50)] = ()
    limit: Annotated[int, Range(least=1, most=MOST_ROWS)] = 1000


@value
class Preview(Message):
    project: Name
    dataset: Name
    version: VersionWord
    columns: Annotated[tuple[ColumnName, ...], Items(most=1000)] = ()
    limit: Annotated[int, Range(least=1, most=1000)] = 20


@value
class FoundRows(Message):
    """`versions` are those that were read, such as `flights@3`. Numbers that JSON has not, and whatever is no number, text or
    truth, are text. `more`: the limit cut them."""

    versions: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


GRANT_READ: Final = Operation(
    name="dataset.grant",
    summary="Grant reading a version: its parts with the keys that open them.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/grant",
    request=GrantRead,
    result=ReadGrant,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
READ_PART: Final = Operation(
    name="dataset.part",
    summary="Read the sealed bytes of a part, or some of them; a grant has the key.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/parts/{part}",
    request=ReadPart,
    result=Download,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
QUERY: Final = Operation(
    name="dataset.query",
    summary="Ask versions of datasets one question in SQL.",
    method="POST",
    path="projects/{project}/query",
    request=Query,
    result=FoundRows,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
PREVIEW: Final = Operation(
    name="dataset.preview",
    summary="Show the first rows of a version.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/versions/{version}/preview",
    request=Preview,
    result=FoundRows,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (GRANT_READ, READ_PART, QUERY, PREVIEW)
