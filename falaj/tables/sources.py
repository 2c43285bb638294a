"""Any source of rows as Arrow batches: its form found where it was not said, its bytes taken out of compression and encoding.

Nothing here trusts what it reads: bytes, records and memory have bounds, and what Arrow is handed by others is validated.
"""

import io
import itertools
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value
from falaj.tables import delimited, json_lines, types
from falaj.tables.arrow_schemas import arrow_type
from falaj.tables.forms import Form
from falaj.tables.records import BLOCK, blocks
from falaj.tables.schemas import Schema
from falaj.tables.streams import CHUNK, Peekable, as_utf8, chunks_of, compression_of, decompressed, encoding_of

MOST_BYTES: Final = 16 << 30
_IN_MEMORY: Final = 1 << 30  # of what has to be there as a whole and came as a stream
_LOOKED_AT: Final = 64 << 10
_BATCH_ROWS: Final = 65_536
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"


@value
class Source:
    """`form` with nothing empty; `schema` is Arrow's, of every batch. `numbers` are those that a Parquet file gives its columns
    besides names, where it does."""

    form: Form
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    numbers: tuple[int | None, ...] = ()


def opened(file: IO[bytes], form: Form, wanted: Schema | None = None, *, most: int = MOST_BYTES) -> Source:
    """The rows of a source. `wanted` is what they shall be brought into later: text has its types from there. Raises `Invalid`
    and `TooLarge`, here and from the batches."""
    if form.format == "parquet" and _seeks(file):
        return _parquet(file, form)
    outer = Peekable(file)
    start = outer.peek(_LOOKED_AT)
    if not start:
        raise Invalid("The source is empty: there is not even a header in it.")
    if not form.format and start.startswith(_PARQUET) and _seeks(file):
        file.seek(0)
        return _parquet(file, form)
    compression = form.compression or compression_of(start)
    inner = decompressed(outer, compression, most)
    first = inner.peek(_LOOKED_AT)
    said = _with(form, compression=compression, format=form.format or _format_of(first))
    match said.format:
        case "parquet":
            return _parquet(pa.BufferReader(_whole(inner)), said)
        case "arrow":
            return _arrow(inner, said, is_file=first.startswith(_ARROW_FILE))
    encoding = form.encoding or encoding_of(first)
    text = as_utf8(chunks_of(inner), encoding)
    if said.format == "jsonl":
        return _json_lines(text, _with(said, encoding=encoding), wanted)
    return _delimited(text, _with(said, encoding=encoding), wanted)


def _delimited(text: Iterator[bytes], form: Form, wanted: Schema | None) -> Source:
    chunk = next(text, b"")
    sample = chunk[:_LOOKED_AT].decode("utf-8", "replace")
    form = _with(form, delimiter=form.delimiter or delimited.delimiter_of(sample))
    whole = blocks(
        itertools.chain([chunk], text), quote=form.quote, delimiter=form.delimiter, size=BLOCK, first_line=form.first_line
    )
    first = next(whole, b"")
    if not first.strip():
        raise Invalid("The source is empty: there is not even a header in it.")
    layout = delimited.layout(first, form, _types(form, wanted))
    batches = delimited.rows(itertools.chain([first], whole), layout, form.time_zone or None)
    return Source(form=form, schema=_schema(layout.columns), batches=batches)


def _json_lines(text: Iterator[bytes], form: Form, wanted: Schema | None) -> Source:
    whole = blocks(text, first_line=form.first_line)
    first = next(whole, b"")
    given = _types(form, wanted)
    columns = json_lines.columns_of(first, given, form.first_line, whole=wanted is not None)
    if not columns:
        raise Invalid("The source has no rows, so that nobody knows its columns. Say their types (types), or send rows.")
    batches = json_lines.rows(itertools.chain([first], whole), columns, form.time_zone or None, form.first_line)
    return Source(form=form, schema=_schema(columns), batches=batches)


def _parquet(file: Any, form: Form) -> Source:
    try:
        opened = pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)
        schema, numbers = _named(opened.schema_arrow), tuple(map(_number_of, opened.schema_arrow))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Invalid(f"The source is no Parquet file that can be read: {str(error)[:300]}.") from None
    batches = _watched(opened.iter_batches(_BATCH_ROWS), "Parquet file")
    return Source(form=_with(form, format="parquet"), schema=schema, batches=batches, numbers=numbers)


def _number_of(field: pa.Field) -> int | None:
    """Raises `ValueError` for what is no number."""
    said = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if said is None else int(said)


def _arrow(inner: Peekable, form: Form, *, is_file: bool) -> Source:
    try:
        if is_file:
            file = pa.ipc.open_file(pa.BufferReader(_whole(inner)))
            schema, batches = _named(file.schema), (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            # A pipe gives what has come by now; Arrow takes less than it asked for as the end.
            stream = pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(inner, CHUNK), mode="r"))
            schema, batches = _named(stream.schema), iter(stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Invalid(f"The source is no Arrow stream that can be read: {str(error)[:300]}.") from None
    return Source(form=form, schema=schema, batches=_watched(batches, "Arrow stream"))


def _named(schema: pa.Schema) -> pa.Schema:
    """Raises `ValueError` for names that are no text, which Arrow's own readers let through."""
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])


def _watched(batches: Iterator[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    """Others wrote these bytes: a length that points elsewhere is found before anything follows it."""
    try:
        for batch in batches:
            batch.validate(full=True)
            yield batch.replace_schema_metadata(None)
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Invalid(f"The source is a damaged {what}: {str(error)[:300]}.") from None


def _whole(file: Peekable) -> pa.Buffer:
    gathered = pa.BufferOutputStream()
    for chunk in chunks_of(file):
        gathered.write(chunk)
        if gathered.tell() > _IN_MEMORY:
            raise TooLarge(f"A source of this format has at most {_IN_MEMORY >> 20} MiB: send it in smaller pieces.")
    return gathered.getvalue()


def _types(form: Form, wanted: Schema | None) -> dict[str, str]:
    """What was said of a column goes before what the schema has: it is how the source writes it."""
    given = {column.name: column.type for column in wanted.columns} if wanted is not None else {}
    return {**given, **{name: str(types.parse(word, of=name)) for name, word in (form.types or {}).items()}}


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([(name, arrow_type(types.parse(word, of=name))) for name, word in columns.items()])


def _format_of(first: bytes) -> str:
    if first.startswith(_PARQUET):
        return "parquet"
    if first.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    return "jsonl" if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "csv"


def _seeks(file: IO[bytes]) -> bool:
    try:
        return isinstance(file, io.IOBase) and file.seekable()
    except OSError:
        return False


def _with(form: Form, **changed: Any) -> Form:
    fields = {name: getattr(form, name) for name in form.__value_fields__}  # type: ignore[attr-defined]
    return Form(**{**fields, **changed})
