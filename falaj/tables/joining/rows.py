"""Where a view's rows come from, some at a time: sealed parts, or tables in memory. They are read once for each pass."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables import types
from falaj.tables.arrow_schemas import arrow_type, type_word
from falaj.tables.joining.arrays import check_moments
from falaj.tables.joining.views import View
from falaj.tables.schemas import listed

BLOCK_ROWS: Final = 1 << 20


class Rows(Protocol):
    """Rows in their order, as often as asked. A part's reader is one."""

    arrow_schema: pa.Schema

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]: ...


class Held:
    """Rows in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.arrow_schema: pa.Schema = table.schema
        self._table = table

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = self._table if columns is None else self._table.select(list(columns))
        yield from table.to_batches()


@value
class Piece:
    """Some of a view's rows. `known`: when all of them became known (microseconds UTC), where no column says it for each.
    Views are read at the same time: each needs readers of its own."""

    rows: Rows
    known: int | None = None


@value
class Block:
    table: pa.Table
    known: int | None


def common_schema(view: View, pieces: Sequence[Piece]) -> pa.Schema:
    """The view's columns in types that hold what any piece has. Raises `Invalid` where there are none."""
    if not pieces:
        raise Invalid(f"View {view.name!r} has no rows to read: not even an empty table.")
    fields = []
    for piece in pieces:
        for name in filter(None, (view.event, view.known)):
            check_moments(_field(piece, name, view).type, name=name)
    for name in view.columns():
        widest = None
        for piece in pieces:
            given = type_word(_field(piece, name, view).type, of=name)
            if widest is None or types.fits(widest, into=given):
                widest = given
            elif not types.fits(given, into=widest):
                raise Invalid(f"Column {name!r} of view {view.name!r} is {widest} in one part and {given} in another.")
        assert widest is not None  # nosec B101 - there is a piece
        fields.append(pa.field(name, arrow_type(widest)))
    if not view.known and any(piece.known is None for piece in pieces):
        raise Invalid(
            f"View {view.name!r} has no column that says when a row became known, and a part of it does not say it either."
        )
    return pa.schema(fields)


def blocks(pieces: Sequence[Piece], schema: pa.Schema, readers: Executor) -> Iterator[Block]:
    """In order; `readers` read the next one while the one before is worked on."""
    waiting = read(pieces, schema)
    coming = readers.submit(next, waiting, None)
    while (block := coming.result()) is not None:
        coming = readers.submit(next, waiting, None)
        yield block


def read(pieces: Sequence[Piece], schema: pa.Schema) -> Iterator[Block]:
    for piece in pieces:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in piece.rows.batches(schema.names):
            held.append(batch)
            rows += batch.num_rows
            if rows >= BLOCK_ROWS:
                yield Block(table=_fitted(held, schema), known=piece.known)
                held, rows = [], 0
        if rows:
            yield Block(table=_fitted(held, schema), known=piece.known)


def _fitted(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(batches).select(schema.names)
    return pa.Table.from_arrays([_cast(*pair) for pair in zip(table.columns, schema, strict=True)], schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise Invalid(f"Column {field.name!r} holds {column.type} that {field.type} does not hold: {error}.") from None


def _field(piece: Piece, name: str, view: View) -> pa.Field:
    there = piece.rows.arrow_schema
    if name not in there.names:
        raise Invalid(f"View {view.name!r} needs a column {name!r}. There are {listed(tuple(there.names))}.")
    return there.field(name)
