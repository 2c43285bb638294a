"""Writing: a write is opened, its pieces are sent, and committing makes the version. It outlives kills on either side."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Id, Items, Message, Name, NameOrNone, Nothing, Personal, Range, Text, value
from falaj.datasets.operations.derivations import FunctionUsed
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import WRITE, ColumnName, Description, Mode, Origin
from falaj.tables.forms import Form

NEWEST: Final = -1
MOST_PIECES: Final = 100_000
HIGHEST_PIECE: Final = 2**53

PieceNumber = Annotated[int, Range(least=1, most=HIGHEST_PIECE)]


@value
class OpenWrite(Message):
    """`parent` is the number of the version that the writer knows; then any other that came between is a conflict. By itself a
    write is held against the version that is current when it is opened, except that an append goes behind whatever is current
    when it is committed.

    `keys` are the columns that tell rows apart for a merge; `where` is the condition, in SQL, of the rows to delete.
    `evolve`: the rows may bring new columns and wider types. Columns that can be null may be left out: they are null then.
    `create`: a dataset that is not there is made.

    With a `key` of the caller's choice a write is found again: while it is open it is gone on with, and for a day after it
    was committed it says what became of it. So whoever was killed asks again, and nothing is written twice.

    Where the columns are not known yet, or may change, piece 1 decides them and comes before the others.

    `unless_same`: an overwrite whose rows are those of the current version, in the same pieces, makes no other one. The commit
    answers with the current version then.

    `derivation` says that the rows are what a function made of other versions: then the version is linked to them, and found by
    whoever would make the same (dataset.find-derived). Such a write overwrites.
    """

    project: Name
    dataset: Name
    mode: Mode = "append"
    parent: Annotated[int, Range(least=NEWEST, most=2**31 - 1)] = NEWEST
    form: Form = Form()
    keys: Annotated[tuple[ColumnName, ...], Items(most=100)] = ()
    where: Annotated[str, Text(longest=20_000), Personal()] = ""
    evolve: bool = False
    create: bool = False
    description: Description = ""
    zone: NameOrNone = ""
    origin: Origin = ""
    key: Annotated[str, Text(pattern=r"^[A-Za-z0-9_-]*$", longest=64)] = ""
    unless_same: bool = False
    derivation: FunctionUsed | None = None


@value
class Piece(Message):
    """`source` is the SHA-256 of the bytes that were sent, `digest` that of the rows they hold."""

    piece: int
    rows: int
    size: int
    digest: str
    source: str


@value
class Write(Message):
    """`parent` is the version it is held against. `version` is what became of it, once it is committed."""

    id: Id
    dataset: Name
    mode: Mode
    state: Literal["open", "committed", "abandoned"]
    parent: int
    version: int
    pieces: tuple[Piece, ...]
    expires: Moment


@value
class OneWrite(Message):
    project: Name
    dataset: Name
    write: Id


@value
class WritePart(Message):
    """`piece` counts from 1, or is any number where the commit says which it takes. Every piece is a whole source by itself,
    with a header where it is CSV; `first_line` is the line of the original that this one begins at, for messages about its
    rows."""

    project: Name
    dataset: Name
    write: Id
    piece: PieceNumber
    first_line: Annotated[int, Range(least=1, most=2**53)] = 1


@value
class CommitWrite(Message):
    """`pieces` is how many were sent: a write that lacks one is not committed.

    `only` are the numbers of those that make the version, in their order, where many send at once and some are tried again:
    whatever else came is let go. `pieces` is how many of them there are.
    """

    project: Name
    dataset: Name
    write: Id
    pieces: Annotated[int, Range(least=0, most=MOST_PIECES)]
    only: Annotated[tuple[PieceNumber, ...], Items(most=MOST_PIECES)] = ()


OPEN_WRITE: Final = Operation(
    name="dataset.write",
    summary="Open a write: append, overwrite, merge by key, or delete where.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/writes",
    request=OpenWrite,
    result=Write,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_WRITE: Final = Operation(
    name="dataset.show-write",
    summary="Show a write and which of its pieces have arrived.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/writes/{write}",
    request=OneWrite,
    result=Write,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
WRITE_PART: Final = Operation(
    name="dataset.write-part",
    summary="Bring a piece of a write: CSV, JSON lines, Parquet or an Arrow stream. Sent again it changes nothing.",
    method="PUT",
    path="projects/{project}/datasets/{dataset}/writes/{write}/pieces/{piece}",
    request=WritePart,
    result=Piece,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)
COMMIT_WRITE: Final = Operation(
    name="dataset.commit",
    summary="Make a version of a write; done again it answers the same.",
    method="POST",
    path="projects/{project}/datasets/{dataset}/writes/{write}/commit",
    request=CommitWrite,
    result=Version,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ABANDON_WRITE: Final = Operation(
    name="dataset.abandon",
    summary="Give a write up; what was sent is shredded.",
    method="DELETE",
    path="projects/{project}/datasets/{dataset}/writes/{write}",
    request=OneWrite,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (OPEN_WRITE, SHOW_WRITE, WRITE_PART, COMMIT_WRITE, ABANDON_WRITE)
