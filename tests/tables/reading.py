"""Sources as tests have them: bytes in, a table out."""

import io

import pyarrow as pa

from falaj.tables.forms import Form
from falaj.tables.sources import MOST_BYTES, opened


def read(content, schema=None, *, most=MOST_BYTES, **form):
    source = opened(io.BytesIO(content), Form(**form), schema, most=most)
    return pa.Table.from_batches(list(source.batches), source.schema)


def words(table):
    return {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}


class Streamed(io.RawIOBase):
    """Bytes as they come out of a pipe: in pieces, and without a way back."""

    def __init__(self, pieces):
        self._pieces = iter(pieces)
        self.taken = 0

    def readable(self):
        return True

    def read(self, size=-1):
        piece = next(self._pieces, b"")
        self.taken += len(piece)
        return piece
