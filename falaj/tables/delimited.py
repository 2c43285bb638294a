"""Rows from CSV and its kin: what it looks like and what its columns are from the first block, then block by block.

A block that cannot be read is read again slowly, by `delimited_mistakes`, to say which line and which column are wrong.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables import delimited_mistakes, types
from falaj.tables.arrow_schemas import arrow_type, type_word
from falaj.tables.forms import Form
from falaj.tables.moments import looks_like, parsed
from falaj.tables.records import first_record, lines_in
from falaj.tables.schemas import listed

_DELIMITERS: Final = ",;\t|"
_LOOKED_AT: Final = 1 << 20
_LEADING_ZERO: Final = r"^[+-]?0\d"
_MANY_DIGITS: Final = r"^[+-]?\d{16,}$"  # more than a float64 tells apart
_AS_TEXT: Final = ("moment", "unknown")  # what Arrow's reader is not asked for
_NOT_IN_TEXT: Final = ("list", "vector", "record", "duration")


@value
class Layout:
    """A source in full: `columns` in the file's order with the words of their types."""

    form: Form
    columns: Mapping[str, str]


def delimiter_of(sample: str) -> str:
    """What the first lines agree on most: the sign that stands equally often, and most often, in each."""
    lines = [line for line in sample.splitlines()[:50] if line.strip()]
    best, most = ",", 0
    for sign in _DELIMITERS:
        counts = Counter(len(fields) for fields in csv.reader(lines, delimiter=sign))
        fields, agreeing = max(counts.items(), key=lambda one: (one[1], one[0]), default=(1, 0))
        if fields > 1 and agreeing * fields > most:
            best, most = sign, agreeing * fields
    return best


def layout(first: bytes, form: Form, wanted: Mapping[str, str]) -> Layout:
    """From the first block. `wanted` are types that are given; the others are found. Raises `Invalid` for a header that is
    none."""
    names = _names(first, form)
    unknown = tuple(name for name in (form.types or {}) if name not in names)
    if unknown:
        raise Invalid(f"Types are given for columns that are not there: {listed(unknown)}. There are {listed(tuple(names))}.")
    for name, word in wanted.items():
        if types.parse(word, of=name).word in _NOT_IN_TEXT and name in names:
            raise Invalid(f"Column {name!r} cannot be {word}: CSV has no such values. Send JSON lines, Parquet or Arrow.")
    known = {name: word for name, word in wanted.items() if name in names}
    if len(known) == len(names):
        return Layout(form=form, columns={name: known[name] for name in names})
    body = _body(first, form)
    sample = body if len(body) <= _LOOKED_AT else body[: first_record(body, form.quote, beyond=_LOOKED_AT)]
    guessed = _guessed(sample, Layout(form=form, columns={name: known.get(name, "unknown") for name in names}))
    return Layout(form=form, columns={name: known.get(name, guessed[name]) for name in names})


def rows(blocks: Iterator[bytes], found: Layout, zone: str | None) -> Iterator[pa.RecordBatch]:
    """Raises `Invalid`, naming line and column."""
    form, line, row = found.form, found.form.first_line, 1
    kinds = {name: _read_as(word, name) for name, word in found.columns.items()}
    for number, block in enumerate(blocks):
        body = _body(block, form) if number == 0 else block
        line += lines_in(block[: len(block) - len(body)])
        try:
            table = _read(body, form, kinds)
        except pa.ArrowInvalid as error:
            raise Invalid(delimited_mistakes.found_in(body, form, kinds, line, str(error))) from None
        for batch in table.to_batches():
            yield _finished(batch, found.columns, zone, row)
            row += batch.num_rows
        line += lines_in(body)


def _finished(batch: pa.RecordBatch, columns: Mapping[str, str], zone: str | None, row: int) -> pa.RecordBatch:
    """Moments are read as text: Arrow takes times with an offset or without, never both in one column."""
    for place, (name, word) in enumerate(columns.items()):
        if word == "moment":
            batch = batch.set_column(place, name, parsed(batch.column(place), zone, name=name, first_row=row))
        elif word == "unknown" and batch.column(place).null_count < batch.num_rows:
            raise Invalid(f"Column {name!r} was empty at first and has values later: say its type (types, as {name} = text).")
        elif word == "unknown":
            batch = batch.set_column(place, name, pa.nulls(batch.num_rows))
    return batch


def _names(first: bytes, form: Form) -> list[str]:
    fields = _fields(first, form)
    if not form.header:
        names = list(form.columns) or [f"column_{number}" for number in range(1, len(fields) + 1)]
    elif form.columns and len(form.columns) != len(fields):
        raise Invalid(
            f"{len(form.columns)} names of columns are given, and the header has {len(fields)}: {listed(tuple(fields))}."
        )
    else:
        names = list(form.columns) or [field.strip() for field in fields]
    for place, name in enumerate(names, start=1):
        if not name or len(name) > 500:
            raise Invalid(
                f"Column {place} has no name, or one of more than 500 letters: the first line should name the columns. "
                "Where there is no header say so (header = false), and give the names (columns)."
            )
        if names.count(name) > 1:
            raise Invalid(f"There are two columns called {name!r}: rename one of them, or give the names (columns).")
    return names


def _fields(first: bytes, form: Form) -> list[str]:
    try:
        line = first[: first_record(first, form.quote)].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("The first line is not UTF-8. Say its encoding, as latin-1, cp1252 or utf-16.") from None
    if "\0" in line:
        raise Invalid("The first line has bytes that no text has: this is no CSV. Say its format, or its encoding.")
    return next(delimited_mistakes.slowly([line], form), [])


def _body(block: bytes, form: Form) -> bytes:
    return block[first_record(block, form.quote) :] if form.header else block


def _guessed(sample: bytes, found: Layout) -> dict[str, str]:
    """Types of a sample's columns. What would lose something as a number stays text: zip codes, long numbers of accounts."""
    form, names = found.form, list(found.columns)
    texts = {name: pa.binary() for name in names}
    try:
        inferred = _read_once(sample, form, dict.fromkeys(names), quoted_nulls=True)
        written = _read_once(sample, form, texts, quoted_nulls=True)
        quoted = _read_once(sample, form, texts, quoted_nulls=False)
    except pa.ArrowInvalid as error:
        raise Invalid(delimited_mistakes.found_in(sample, form, texts, form.first_line + form.header, str(error))) from None
    return {
        name: "text"
        if pa.types.is_null(kind) and quoted[name].null_count < len(quoted)
        else _word(name, kind, text.combine_chunks())
        for name, kind, text in zip(names, inferred.schema.types, written.columns, strict=True)
    }


def _word(name: str, kind: pa.DataType, written: pa.Array) -> str:
    if pa.types.is_binary(kind):
        raise Invalid(
            f"Column {name!r} has text that is not UTF-8. Say the encoding of the source, as latin-1, cp1252 or utf-16."
        )
    texts = written.cast(pa.string())
    if pa.types.is_integer(kind) and pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py():
        return "text"
    if pa.types.is_floating(kind) and pc.any(pc.match_substring_regex(texts, f"{_MANY_DIGITS}|{_LEADING_ZERO}\\d*$")).as_py():
        return "text"
    if pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        return looks_like(texts) or "text"
    return str(type_word(kind, of=name))


def _read_as(word: str, name: str) -> pa.DataType:
    return pa.string() if word in _AS_TEXT else arrow_type(types.parse(word, of=name))


def _read(body: bytes, form: Form, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Quoted, nothing is null where text is wanted; where a number is wanted it is, for some programs quote everything."""
    if not body or body.isspace():
        return pa.schema(list(kinds.items())).empty_table()
    try:
        return _read_once(body, form, kinds, quoted_nulls=False)
    except pa.ArrowInvalid:
        others = [name for name, kind in kinds.items() if not pa.types.is_string(kind)]
        if not form.quote or form.quote.encode() not in body or not others:
            raise
        texts = _read_once(body, form, {name: pa.string() for name in kinds}, quoted_nulls=False)
        table = _read_once(body, form, {name: kinds[name] for name in kinds}, quoted_nulls=True)
        return pa.table({name: (table if name in others else texts).column(name) for name in kinds})


def _read_once(body: bytes, form: Form, kinds: Mapping[str, pa.DataType | None], *, quoted_nulls: bool) -> pa.Table:
    if not body or body.isspace():
        return pa.schema([(name, kind or pa.null()) for name, kind in kinds.items()]).empty_table()
    return pcsv.read_csv(
        pa.BufferReader(body),
        read_options=pcsv.ReadOptions(column_names=list(kinds), block_size=len(body) + 1),
        parse_options=pcsv.ParseOptions(
            delimiter=form.delimiter, quote_char=form.quote or False, double_quote=True, newlines_in_values=bool(form.quote)
        ),
        convert_options=pcsv.ConvertOptions(
            column_types={name: kind for name, kind in kinds.items() if kind is not None},
            null_values=list(form.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_nulls,
        ),
    )
