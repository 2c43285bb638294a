"""Our schemas as Arrow's, and rows of any Arrow schema brought into one of ours."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.schemas import Column, Schema, checked
from falaj.tables.types import Type

_MOMENT: Final = pa.timestamp("us", "UTC")
_PLAIN: Final[dict[str, pa.DataType]] = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float32": pa.float32(), "float64": pa.float64(),
    "text": pa.string(), "bytes": pa.binary(), "bool": pa.bool_(),
    "moment": _MOMENT, "date": pa.date32(), "time": pa.time64("us"), "duration": pa.duration("us"),
    "unknown": pa.null(),
}  # fmt: skip
_WORDS: Final = {kind: word for word, kind in _PLAIN.items()}
# What others keep in more ways than one, by Arrow's own question.
_ALSO: Final[list[tuple[Callable[[pa.DataType], bool], str]]] = [
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_float16, "float32"),
    (pa.types.is_timestamp, "moment"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
]
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)


def to_arrow(schema: Schema) -> pa.Schema:
    """How rows of a schema lie in memory and in parts. Raises `Invalid` for words that are none."""
    columns = [
        pa.field(one.name, arrow_type(types.parse(one.type, of=one.name)), one.nullable) for one in checked(schema).columns
    ]
    return pa.schema(columns)


def from_arrow(schema: pa.Schema) -> Schema:
    """Raises `Invalid` for names that appear twice and for types we have no word for."""
    try:
        return checked(Schema(columns=tuple(_column(field) for field in schema)))
    except RecursionError:
        raise Invalid("A column is nested too deep: flatten it.") from None


def arrow_type(kind: Type) -> pa.DataType:
    match kind.word:
        case "decimal":
            return pa.decimal128(*kind.sizes) if kind.sizes[0] <= 38 else pa.decimal256(*kind.sizes)
        case "list":
            return pa.list_(arrow_type(kind.inner[0]))
        case "vector":
            return pa.list_(arrow_type(kind.inner[0]), kind.sizes[0])
        case "record":
            return pa.struct([(name, arrow_type(one)) for name, one in zip(kind.names, kind.inner, strict=True)])
    return _PLAIN[kind.word]


def type_word(kind: pa.DataType, *, of: str) -> Type:
    """Raises `Invalid`, naming the column it is the type `of`."""
    if kind in _WORDS:
        return Type(word=_WORDS[kind])
    for asks, word in _ALSO:
        if asks(kind):
            return Type(word=word)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return type_word(kind.value_type, of=of)
    if isinstance(kind, pa.BaseExtensionType):
        return type_word(kind.storage_type, of=of)
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    return _nested(kind, of)


def _decimal(kind: pa.DataType) -> Type:
    if kind.scale < 0:
        return Type(word="decimal", sizes=(kind.precision - kind.scale, 0))
    return Type(word="decimal", sizes=(max(kind.precision, kind.scale), kind.scale))


def _nested(kind: pa.DataType, of: str) -> Type:
    if pa.types.is_fixed_size_list(kind):
        return Type(word="vector", inner=(type_word(kind.value_type, of=of),), sizes=(kind.list_size,))
    if pa.types.is_map(kind):
        pair = (type_word(kind.key_type, of=of), type_word(kind.item_type, of=of))
        return Type(word="list", inner=(Type(word="record", names=("key", "value"), inner=pair),))
    if any(asks(kind) for asks in _LISTS):
        return Type(word="list", inner=(type_word(kind.value_type, of=of),))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(place) for place in range(kind.num_fields)]
        inner = tuple(type_word(field.type, of=of) for field in fields)
        return Type(word="record", names=tuple(field.name for field in fields), inner=inner)
    raise Invalid(f"Column {of!r} has the type {kind}, which tables here do not have. Convert it, or leave the column out.")


def _column(field: pa.Field) -> Column:
    return Column(name=field.name or "?", type=str(type_word(field.type, of=field.name)), nullable=field.nullable)
