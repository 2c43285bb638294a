"""Our words for types as Spark writes them, and back. What the other has in no form is refused, with what to do instead."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.schemas import Schema
from falaj.tables.types import Type

_MOST_DIGITS: Final = 38
# Spark's integers are all signed: those without a sign get the next wider type.
_PLAIN: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT",
    "uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)",
    "float32": "FLOAT", "float64": "DOUBLE",
    "text": "STRING", "bytes": "BINARY", "bool": "BOOLEAN",
    "moment": "TIMESTAMP", "date": "DATE", "time": "TIME(6)", "duration": "INTERVAL DAY TO SECOND",
    "unknown": "VOID",
}  # fmt: skip

_REFUSED: Final = {
    "timestamp_ntz": "times without a zone, which mean nothing to somebody elsewhere: say whose clocks they are with the "
    "option `timeZone`, as Asia/Dubai or UTC",
    "variant": "variants: write them as text with to_json",
    "geometry": "geometries: write them as bytes with st_asbinary",
    "geography": "geographies: write them as bytes with st_asbinary",
    "udt": "a type of a library's own: convert it to an array or a struct",
    "interval year": "intervals of months: write them as numbers",
    "interval month": "intervals of months: write them as numbers",
}


def ddl(schema: Schema) -> str:
    """As in CREATE TABLE. Raises `Invalid` for a column that Spark has no type for."""
    columns = (
        f"{_quoted(one.name)} {_word(types.parse(one.type, of=one.name), one.name)}{'' if one.nullable else ' NOT NULL'}"
        for one in schema.columns
    )
    return ", ".join(columns)


def refuse(fields: Iterable[Any], *, time_zone: str) -> None:
    """Raises `Invalid` for columns of Spark's that have no match here, before anything is written."""
    for field in fields:
        for kind in _within(field.dataType):
            name = "udt" if hasattr(kind, "sqlType") else kind.simpleString()
            for refused, why in _REFUSED.items():
                if name.startswith(refused) and not (refused == "timestamp_ntz" and time_zone):
                    raise Invalid(f"Column {field.name!r} holds {why}.")


def _within(kind: Any) -> Iterator[Any]:
    """The type itself, and those within an array, a map or a struct."""
    yield kind
    inner = [field.dataType for field in getattr(kind, "fields", ())]
    inner += [getattr(kind, name) for name in ("elementType", "keyType", "valueType") if hasattr(kind, name)]
    for one in inner:
        yield from _within(one)


def _word(kind: Type, of: str) -> str:
    match kind.word:
        case "decimal":
            if kind.sizes[0] > _MOST_DIGITS:
                raise Invalid(
                    f"Column {of!r} is {kind}, and Spark's decimals have at most {_MOST_DIGITS} digits: read the others with "
                    "the option `columns`."
                )
            return f"DECIMAL({kind.sizes[0]}, {kind.sizes[1]})"
        case "list" | "vector":
            return f"ARRAY<{_word(kind.inner[0], of)}>"
        case "record":
            fields = (f"{_quoted(name)}: {_word(one, of)}" for name, one in zip(kind.names, kind.inner, strict=True))
            return f"STRUCT<{', '.join(fields)}>"
    return _PLAIN[kind.word]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
