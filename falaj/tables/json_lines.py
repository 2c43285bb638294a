"""Rows from JSON lines: what its columns are from the first block, then block by block, each line one object."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import arrow_type, type_word
from falaj.tables.moments import looks_like, parsed
from falaj.tables.records import first_record, lines_in
from falaj.tables.schemas import listed
from falaj.tables.types import Type

_LOOKED_AT: Final = 4 << 20
_AS_TEXT: Final = ("moment", "date", "time")
_NOT_IN_JSON: Final = ("bytes", "duration")
_SHOWN: Final = 60
_DEEPEST: Final = 100
_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_KINDS: Final = {dict: "an object", list: "a list", str: "text", bool: "a bool", int: "a number", float: "a number"}


def columns_of(first: bytes, wanted: Mapping[str, str], line: int, *, whole: bool) -> dict[str, str]:
    """Names and words of types, from the first block: `wanted` are given, and with `whole` there are no others."""
    for name, word in wanted.items():
        if types.parse(word, of=name).word in _NOT_IN_JSON:
            raise Invalid(f"Column {name!r} cannot be {word}: JSON has no such values. Send Parquet or Arrow.")
    if whole:
        return dict(wanted)
    sample = first if len(first) <= _LOOKED_AT else first[: first_record(first, "", beyond=_LOOKED_AT)]
    given = pa.schema([(name, _read_as(types.parse(word, of=name))) for name, word in wanted.items()])
    found = _read(sample, given, "infer", line)
    texts = {field.name: pa.string() for field in found.schema if pa.types.is_timestamp(field.type)}
    if texts:
        again = pa.schema([(field.name, texts.get(field.name, field.type)) for field in found.schema])
        found = _read(sample, _without_times(again), "infer", line)
    return {name: wanted.get(name) or _word(name, found.column(name).combine_chunks()) for name in found.column_names}


def rows(blocks: Iterator[bytes], columns: Mapping[str, str], zone: str | None, line: int) -> Iterator[pa.RecordBatch]:
    """Raises `Invalid`, naming line and column. A field that a line does not have is null there."""
    kinds = {name: types.parse(word, of=name) for name, word in columns.items()}
    schema = pa.schema([(name, _read_as(kind)) for name, kind in kinds.items()])
    row = 1
    for block in blocks:
        for batch in _read(block, schema, "error", line).combine_chunks().to_batches():
            yield pa.RecordBatch.from_arrays(
                [_finished(batch.column(name), kind, zone, name, row) for name, kind in kinds.items()], names=list(kinds)
            )
            row += batch.num_rows
        line += lines_in(block)


def _finished(column: pa.Array, kind: Type, zone: str | None, name: str, row: int) -> pa.Array:
    if kind.word == "moment":
        return parsed(column, zone, name=name, first_row=row)
    if column.type == (wanted := arrow_type(kind)):
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"Column {name!r} has in rows {row} to {row + len(column) - 1} something that is no {kind}: {error}."
        ) from None


def _read(block: bytes, schema: pa.Schema, unexpected: str, line: int) -> pa.Table:
    if not block or block.isspace():
        return schema.empty_table()
    if _depth(block) > _DEEPEST:
        raise Invalid(f"Between lines {line} and {line + lines_in(block)} something is nested more than {_DEEPEST} deep.")
    try:
        return pj.read_json(
            pa.BufferReader(block),
            read_options=pj.ReadOptions(block_size=len(block) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as error:
        raise Invalid(_mistake(block, schema, line, str(error), closed=unexpected == "error")) from None


def _depth(block: bytes) -> int:
    """How deep lists and objects lie within each other, found before anything goes down into them. Where the block is no JSON
    that holds up to the first mistake, behind which nobody reads."""
    bare = block.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in block else block
    brackets = b"".join(bare.split(b'"')[::2]).translate(None, _BUT_BRACKETS)
    signs = np.frombuffer(brackets, np.uint8)
    opening = (signs == ord("[")) | (signs == ord("{"))
    return int(np.where(opening, 1, -1).cumsum().max(initial=0))


def _read_as(kind: Type) -> pa.DataType:
    """What Arrow's reader is asked for: times are text in JSON, and vectors lists."""
    if kind.word in _AS_TEXT:
        return pa.string()
    if kind.word in ("list", "vector"):
        return pa.list_(_read_as(kind.inner[0]))
    if kind.word == "record":
        return pa.struct([(name, _read_as(one)) for name, one in zip(kind.names, kind.inner, strict=True)])
    return arrow_type(kind)


def _without_times(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, _as_text(field.type)) for field in schema])


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Times within lists and records stay text: nobody said whose clocks they are."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([(field.name, _as_text(field.type)) for field in fields])
    return kind


def _word(name: str, column: pa.Array) -> str:
    if pa.types.is_string(column.type):
        return looks_like(column) or "text"
    return str(type_word(_as_text(column.type), of=name))


def _mistake(block: bytes, schema: pa.Schema, line: int, error: str, *, closed: bool) -> str:
    """What is wrong with a block that could not be read, found slowly."""
    seen: dict[str, str] = {}
    last = line
    for last, text in enumerate(block.split(b"\n"), start=line):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except UnicodeDecodeError:
            return f"Line {last} is not UTF-8. Say the encoding of the source, as latin-1 or utf-16."
        except (ValueError, RecursionError) as wrong:
            return f"Line {last} is no JSON: {wrong}. JSON lines are one object a line: {_shown(text)}."
        if not isinstance(record, dict):
            return f"Line {last} is {_kind(record)}: JSON lines are one object a line, as {{'name': 'value'}}."
        extra = tuple(name for name in record if name not in schema.names)
        if closed and extra:
            return (
                f"Line {last} has fields that are not expected: {listed(extra)}. Expected are {listed(tuple(schema.names))}. "
                f"Leave them out, or say their types to an import (`--type {extra[0]}=int64`)."
            )
        if said := _mixed(record, schema, seen, last):
            return said
    return f"Lines {line} to {last} cannot be read as JSON lines: {error[:300]}."


def _mixed(record: dict[str, Any], schema: pa.Schema, seen: dict[str, str], line: int) -> str:
    for name, one in record.items():
        if one is None:
            continue
        wanted = _wanted(schema.field(name).type) if name in schema.names else ""
        before = seen.setdefault(name, wanted or _kind(one))
        if before and before != _kind(one):
            return f"Line {line}, column {name!r}: {str(one)[:_SHOWN]!r} is {_kind(one)} where {before} is expected."
    return ""


def _wanted(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return ""
    if pa.types.is_boolean(kind):
        return "a bool"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "a number"
    return "text" if pa.types.is_string(kind) else "a list" if pa.types.is_list(kind) else "an object"


def _kind(one: Any) -> str:
    return _KINDS.get(type(one), "nothing")


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN].decode(errors="replace"))
