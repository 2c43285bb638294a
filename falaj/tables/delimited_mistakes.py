"""What is wrong with a block of CSV that could not be read: found slowly, and said with its line and its column."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from falaj.tables.forms import Form
from falaj.tables.records import LONGEST, lines_in
from falaj.tables.schemas import listed

_SHOWN: Final = 60


def found_in(body: bytes, form: Form, kinds: Mapping[str, pa.DataType], first_line: int, error: str) -> str:
    """In words. `error` is what Arrow said, for where nothing is found that it may have meant."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        line = first_line + lines_in(body[: wrong.start])
        return f"Line {line} is not UTF-8 (byte {body[wrong.start]:#x}). Say the encoding of the source, as latin-1 or utf-16."
    reader = slowly(io.StringIO(text, newline=""), form)
    names, records, line = list(kinds), [], first_line
    for fields in reader:
        if fields and len(fields) != len(names):
            return _ragged(line, fields, names, form)
        if fields:
            records.append((line, fields))
        line = first_line + reader.line_num
    for place, (name, kind) in enumerate(kinds.items()):
        at = _first_that_is_none([fields[place] for _, fields in records], kind, form.nulls)
        if at is not None:
            line, fields = records[at]
            return (
                f"Line {line}, column {name!r}: {fields[place][:_SHOWN]!r} is no {kind}. Correct it, say what stands for no "
                f"value (`--null`), or say the column's type (`--type {name}=text`)."
            )
    return f"Lines {first_line} to {line} cannot be read as CSV: {error[:300]}."


def slowly(lines: Iterable[str], form: Form) -> Any:
    """The reader of the standard library, which tells where it is."""
    csv.field_size_limit(LONGEST * 2)
    if form.quote:
        return csv.reader(lines, delimiter=form.delimiter, quotechar=form.quote)
    return csv.reader(lines, delimiter=form.delimiter, quoting=csv.QUOTE_NONE)


def _ragged(line: int, fields: list[str], names: list[str], form: Form) -> str:
    return (
        f"Line {line} has {len(fields)} fields where {len(names)} are expected ({listed(tuple(names))}): "
        f"{form.delimiter.join(fields)[:_SHOWN]!r}. Fields are told apart by {form.delimiter!r}; one that holds it or a "
        f"line's end has to stand between {form.quote or 'quotes'}."
    )


def _first_that_is_none(texts: list[str], kind: pa.DataType, nulls: tuple[str, ...]) -> int | None:
    """By halves: most of them are right."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None
    values = pa.array([None if text in nulls else text.strip() for text in texts], pa.string())
    if not _cannot(values, kind):
        return None
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        if _cannot(values.slice(low, middle - low), kind):
            high = middle
        else:
            low = middle
    return low


def _cannot(values: pa.Array, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return True
    return False
