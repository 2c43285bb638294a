"""What a data worker can be asked, and what it answers: frozen values without a data library, for both sides of its walls."""

from typing import Annotated, Any

from falaj.base.values import Items, Message, Secret, value
from falaj.tables.schemas import Schema


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
    `masked` columns are null for whoever asks, in conditions as well."""

    schema: Schema
    parts: tuple[PartToRead, ...]
    masked: tuple[str, ...] = ()


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
