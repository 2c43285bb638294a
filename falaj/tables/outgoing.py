"""Rows in memory, and files that only a data library can cut, as Arrow streams on their way to a dataset."""

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from falaj.base.errors import Invalid

PIECE: Final = 64 << 20
_ROWS: Final = 65_536


def streams(data: Any, *, size: int = PIECE) -> Iterator[bytes]:
    """Arrow streams of about `size` bytes each, at least one. `data` is an Arrow table, a pandas or polars frame, a list of
    dictionaries, batches, or anything else that says it is Arrow."""
    reader = _reader(data)
    waiting: list[pa.RecordBatch] = []
    length, sent = 0, False
    for whole in reader:
        for start in range(0, max(1, whole.num_rows), _ROWS):
            batch = whole.slice(start, _ROWS)
            waiting.append(batch)
            length += batch.nbytes
            if length >= size:
                yield _stream(reader.schema, waiting)
                waiting, length, sent = [], 0, True
    if waiting or not sent:
        yield _stream(reader.schema, waiting)


def parquet_batches(file: IO[bytes]) -> pa.RecordBatchReader:
    """A Parquet file, row group by row group."""
    try:
        opened = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise Invalid(f"This is no Parquet file that can be read: {str(error)[:200]}.") from None
    return pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches(_ROWS))


def arrow_batches(file: IO[bytes]) -> pa.RecordBatchReader:
    """An Arrow file or stream."""
    start = file.read(6)
    file.seek(0)
    try:
        if start != b"ARROW1":
            return pa.ipc.open_stream(file)
        opened = pa.ipc.open_file(file)
    except (pa.ArrowException, OSError) as error:
        raise Invalid(f"This is no Arrow file that can be read: {str(error)[:200]}.") from None
    batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
    return pa.RecordBatchReader.from_batches(opened.schema, batches)


def _reader(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        data = pa.Table.from_pylist(data)
    if type(data).__module__.split(".")[0] == "pandas":
        with warnings.catch_warnings():  # what the two libraries have to tell each other is not for whoever calls
            warnings.simplefilter("ignore")
            data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        with contextlib.suppress(pa.ArrowException):  # a column by itself says that it is Arrow, too
            return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        batches = iter(data)
        first = next(batches, None)
        if isinstance(first, pa.RecordBatch):
            return pa.RecordBatchReader.from_batches(first.schema, _chained(first, batches))
    raise Invalid(
        f"{type(data).__name__} is nothing that rows can be taken from: give an Arrow table or batches, a pandas or polars "
        "frame (of a lazy one what `collect` gives), or a list of dictionaries."
    )


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return file.getvalue()
