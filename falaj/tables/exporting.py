"""Rows on their way out, as files that other programs read: Parquet, CSV, JSON lines, Arrow. In the clear, as they need it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from falaj.base.errors import Invalid
from falaj.tables.arrow_schemas import to_arrow
from falaj.tables.schemas import Schema

FORMATS: Final = ("parquet", "csv", "jsonl", "arrow")
_GROUP: Final = 131_072


def exported(batches: Iterable[pa.RecordBatch], schema: Schema, format: str) -> Iterator[bytes]:
    """A file of that format, in chunks. Raises `Invalid` for columns that the format cannot hold."""
    sink = _Gathered()
    arrow = to_arrow(schema)
    try:
        with _writer(sink, arrow, format) as writer:
            for batch in batches:
                writer.write(batch)
                yield sink.take()
        yield sink.take()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(f"These rows cannot be written as {format}: {error}. Export them as parquet.") from None


def _writer(sink: "_Gathered", schema: pa.Schema, format: str) -> Any:
    if format == "parquet":
        return _Grouped(pq.ParquetWriter(sink, schema, compression="zstd"), schema)
    if format == "csv":
        return pcsv.CSVWriter(sink, schema)
    if format == "arrow":
        return pa.ipc.new_stream(sink, schema)
    if format == "jsonl":
        return _Lines(sink)
    raise Invalid(f"There is no format {format!r} to export: {', '.join(FORMATS)}.")


class _Grouped:
    """Parquet in row groups of a sensible size, however small the batches are."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema
        self._waiting: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= _GROUP:
            self._flush()

    def __enter__(self) -> "_Grouped":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._waiting:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=2 * _GROUP)
        self._waiting = []


class _Lines:
    """JSON has neither times nor bytes: they are text."""

    def __init__(self, sink: "_Gathered") -> None:
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._sink.write(json.dumps(row, ensure_ascii=False, default=_spelled, allow_nan=True).encode() + b"\n")

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None: ...


def _spelled(item: Any) -> str:
    if isinstance(item, bytes):
        return item.hex()
    return str(item.isoformat() if hasattr(item, "isoformat") else item)


class _Gathered:
    """A file to write to, from which is taken what was written."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken

    def tell(self) -> int:
        return self._size

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True
