"""The digest of a table's content: of its schema and of every block of rows, in a form that Arrow's freedoms do not touch.

Two arrays may hold the same values in different bytes: sliced, with something under their nulls, with offsets that begin
anywhere. Here each has one form: which values are there, how long they are, and what they are, nulls as nothing.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.tables.schemas import Schema

BLOCK_ROWS: Final = 16_384
_SMALL_LISTS: Final = (pa.types.is_string, pa.types.is_binary)


class ContentDigest:
    """Fed with blocks of `BLOCK_ROWS` rows, of which the last alone may have fewer. Hashing goes on beside, in a thread."""

    def __init__(self, schema: Schema) -> None:
        said = [[column.name, column.type] for column in schema.columns]
        self._whole = hashlib.sha256(json.dumps(said, ensure_ascii=False).encode())
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="hashing rows")
        self._last: Future[None] | None = None

    def add(self, block: pa.RecordBatch) -> None:
        if self._last is not None:
            self._last.result()  # no more than one waits, so that memory stays bounded
        self._last = self._beside.submit(self._hash, block)

    def close(self) -> str:
        """The digest in hex; nothing can be added any more."""
        try:
            if self._last is not None:
                self._last.result()
        finally:
            self._beside.shutdown()
        return self._whole.hexdigest()

    def _hash(self, block: pa.RecordBatch) -> None:
        self._whole.update(block.num_rows.to_bytes(8, "little"))
        for column in block.columns:
            for piece in canonical(column):
                self._whole.update(piece)


def canonical(array: pa.Array) -> Iterator[Any]:
    """The bytes of an array in their one form."""
    if array.null_count:
        yield b"\1"
        yield np.packbits(np.asarray(array.is_valid()))
    else:
        yield b"\0"
    kind = array.type
    if pa.types.is_null(kind):
        return
    if pa.types.is_struct(kind):
        for child in array.flatten():  # what is null above is null below
            yield from canonical(child)
    elif pa.types.is_list(kind):
        yield _plain(pc.list_value_length(array).fill_null(0))
        yield from canonical(array.flatten())
    elif pa.types.is_fixed_size_list(kind):
        yield from canonical(array.flatten())
    elif any(asks(kind) for asks in _SMALL_LISTS):
        yield from _texts(array.fill_null(b"" if pa.types.is_binary(kind) else "") if array.null_count else array)
    elif pa.types.is_boolean(kind):
        yield np.packbits(np.asarray(array.fill_null(False)))
    else:
        yield _plain(_without_nulls(array))


def _texts(array: pa.Array) -> Iterator[Any]:
    _, offsets, values = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    yield np.diff(ends)
    if values is not None and len(array):
        yield memoryview(values)[ends[0] : ends[-1]]


def _plain(array: pa.Array) -> Any:
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return b""
    return memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]


def _without_nulls(array: pa.Array) -> pa.Array:
    if not array.null_count:
        return array
    width = array.type.bit_width // 8
    nothing = pa.Array.from_buffers(array.type, 1, [None, pa.py_buffer(bytes(width))])[0]
    return array.fill_null(nothing)
