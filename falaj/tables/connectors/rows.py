"""Rows that a driver gives as Python values, as Arrow batches: of few rows where those are wide."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.arrow_schemas import type_word
from falaj.tables.connectors.opened import ROWS

_BATCH: Final = 16 << 20
_SAMPLE: Final = 4096
_FEW, _SOME = 64, 1024

Row = Sequence[Any]


@value
class RowColumn:
    """`convert` makes of a value, never of none, what Arrow takes for `type`. It raises `ValueError` where it cannot."""

    name: str
    type: pa.DataType
    convert: Callable[[Any], Any] | None = None


def schema_of(columns: Sequence[RowColumn]) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in columns])


def first_rows(fetch: Callable[[int], Sequence[Row]]) -> list[Row]:
    """Some, by which types may be told: a few at a time, for nobody knows yet how wide they are."""
    found: list[Row] = []
    size = 0
    while size < _BATCH and len(found) < _SAMPLE and (some := fetch(_FEW)):
        found += some
        size += sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
    return found


def batches(
    columns: Sequence[RowColumn], fetch: Callable[[int], Sequence[Row]], first: Sequence[Row]
) -> Iterator[pa.RecordBatch]:
    """`first` are rows that were fetched already; `fetch` gives at most so many more, and none at the end. Where values may be
    long, few are fetched at once: the next may be a thousand times as long as those before."""
    schema, row, rows = schema_of(columns), 1, first
    most = _SOME if any(_may_be_long(column.type) for column in columns) else ROWS
    waiting: list[pa.RecordBatch] = []
    size, count = 0, _FEW
    while rows:
        made = [_column(column, values, row) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
        batch = pa.RecordBatch.from_arrays(made, schema=schema)
        waiting.append(batch)
        size += batch.nbytes
        if size >= _BATCH or sum(one.num_rows for one in waiting) >= ROWS:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
        row += len(rows)
        count = max(1, min(most, 4 * count, _BATCH // max(1, batch.nbytes // len(rows))))
        rows = fetch(count)
    if waiting:
        yield pa.concat_batches(waiting)


def _may_be_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _column(column: RowColumn, values: Sequence[Any], first_row: int) -> pa.Array:
    try:
        return _array(column, values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
        for row, value in enumerate(values, first_row):
            _try_one(column, value, row)
        raise


def _try_one(column: RowColumn, value: Any, row: int) -> None:
    try:
        _array(column, [value])
    except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
        word = type_word(column.type, of=column.name)
        raise Invalid(
            f"Column {column.name!r} is {word}, and row {row} holds {repr(value)[:60]} there. Say what it is (--type "
            f"{column.name}=text), or convert it in a query."
        ) from None


def _array(column: RowColumn, values: Sequence[Any]) -> pa.Array:
    if column.convert is not None:
        values = [None if value is None else column.convert(value) for value in values]
    return pa.array(values, column.type)


# Conversions


def to_text(value: Any) -> str:
    if isinstance(value, bytes):
        raise ValueError("bytes are no text")
    return value if isinstance(value, str) else str(value)


def to_decimal(value: Any) -> Decimal:
    """Of a float the number that it is written as."""
    made = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    if not made.is_finite():
        raise ValueError("no decimal is infinite, or no number")
    return made


def to_bool(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("true and false are 1 and 0")
    return bool(value)


def to_date(value: Any) -> dt.date:
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise ValueError("this is no date")


def to_zoned(value: Any) -> dt.datetime:
    made = _time(value)
    if made.tzinfo is None:
        raise ValueError("the time has no offset, and others have one")
    return made


def to_unzoned(value: Any) -> dt.datetime:
    made = _time(value)
    if made.tzinfo is not None:
        raise ValueError("the time has an offset, and others have none")
    return made


def _time(value: Any) -> dt.datetime:
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return value
    raise ValueError("this is no time")
