"""What a data worker can be asked, and what it answers: frozen values without a data library, for both sides of its walls."""

from typing import Annotated, Any, Final

from falaj.base.values import Items, Message, Secret, value
from falaj.tables.schemas import Schema

KNOWN: Final = "_known"
"""What SQL calls the moment at which a row became known, where it asks for that by its name."""


@value
class PartToRead:
    """A sealed part behind a descriptor. `renamed` says what columns are called now, by the names they were stored under."""

    file: int
    key: Annotated[bytes, Secret()]
    object_id: str
    renamed: dict[str, str] | None = None


@value
class TableToRead:
    """Parts in their order. `schema` is the version's: a part that lacks a column has null there, a narrower one is widened.
    `masked` columns are null for whoever asks, in conditions as well. `known`, where it is told, says of each part when its
    rows became known: SQL sees that as a column of its own (`KNOWN`)."""

    schema: Schema
    parts: tuple[PartToRead, ...]
    masked: tuple[str, ...] = ()
    known: tuple[int, ...] | None = None


@value
class PartFacts(Message):
    """Of a part that was written. `digest` is that of its content: equal rows in equal order under equal columns have the same,
    whatever part they are in. `profile` is a value for JSON that `profiles` made and merges."""

    rows: int
    size: int
    schema: Schema
    digest: str
    profile: dict[str, Any]


@value
class Rows(Message):
    """Rows for people and for JSON: numbers that JSON has not, decimals with digits behind the point, and everything that is
    no number, text or bool, as text.
    `more`: there would have been others beyond the limit."""

    schema: Schema
    rows: Annotated[tuple[tuple[Any, ...], ...], Items(most=1_000_000)]
    more: bool = False


@value
class QueryLimits(Message):
    """Of one query: seconds, rows and bytes of its answer."""

    seconds: float = 60.0
    rows: int = 10_000
    bytes: int = 256 << 20


@value
class Looked(Message):
    """What one SELECT reads, as far as its text says: never less than what it does.

    `tables` and `words` are in small letters; any column that is read is among the words, unless whole rows are (`wide`, or
    `stars`, which leave out what is `excluded`). `outputs` are the words that each column of the answer is made of, where that
    can be said. `known`: it asks when rows became known. `changes`: the same rows may have another answer the next time.
    """

    tables: Annotated[tuple[str, ...], Items(most=50)]
    words: frozenset[str]
    wide: bool
    stars: bool
    excluded: frozenset[str]
    outputs: tuple[frozenset[str], ...] | None
    known: bool
    changes: bool

    def reads(self, column: str) -> bool:
        """Whether a column may be read that is called so."""
        name = column.lower()
        return self.wide or name in self.words or (self.stars and name not in self.excluded)

    def shows(self, output: int, columns: frozenset[str]) -> bool:
        """Whether the answer's column at this place may be made of one of these."""
        if self.outputs is None or self.wide or output >= len(self.outputs):
            return True
        return not self.outputs[output].isdisjoint(name.lower() for name in columns)


@value
class Bins:
    """Of a column: of numbers by `edges`, as `bin_counts` has them, or of texts by `kinds`."""

    name: str
    edges: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()


@value
class Surveyed:
    """Of one column: numbers by rank, or the commonest texts. `sampled` are some of its rows, the same of each column, with
    nothing where a value is missing or not finite."""

    quantiles: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    sampled: tuple[float | str | None, ...] = ()
