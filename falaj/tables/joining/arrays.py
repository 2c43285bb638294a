"""Arrow's columns as numpy's arrays and back, and what of numpy this room is short of."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.errors import Invalid
from falaj.tables.moments import MOMENT

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1


def int64s(column: pa.ChunkedArray) -> Ints:
    """Of a column of int64 or what lies in memory as one; nulls are 0."""
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    values: Ints = (column.fill_null(0) if column.null_count else column).to_numpy()
    return values


def valid(column: pa.ChunkedArray) -> Mask | None:
    """Which rows are not null; None where all are."""
    return column.is_valid().to_numpy() if column.null_count else None


def moments(column: pa.ChunkedArray, *, name: str) -> pa.ChunkedArray:
    """As microseconds UTC. Raises `Invalid` for what is finer than that, and what `check_moments` refuses."""
    if column.type == MOMENT:
        return column
    check_moments(column.type, name=name)
    try:
        return column.cast(MOMENT)
    except pa.ArrowInvalid as error:
        raise Invalid(f"Column {name!r} has times finer than a microsecond: round them before ({error}).") from None


def check_moments(kind: pa.DataType, *, name: str) -> None:
    """Raises `Invalid` where a column has no times, or times without a zone. One that only ever was null will do."""
    if not pa.types.is_null(kind) and (not pa.types.is_timestamp(kind) or kind.tz is None):
        raise Invalid(
            f"Column {name!r} holds {kind} where moments are expected: times with their zone, as 2026-11-15T09:30:00+04:00."
        )


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def in_groups(groups: Ints, values: Ints) -> Ints | None:
    """One number for each pair, which sorts as the pairs do. None where 64 bits do not hold both."""
    if not len(values):
        return values
    lowest = int(values.min())
    bits = (int(values.max()) - lowest).bit_length()
    if bits + int(groups.max()).bit_length() > 63:
        return None
    return (groups << bits) + (values - lowest)


def order_of(groups: Ints, values: Ints) -> Ints:
    """By group, then value."""
    together = in_groups(groups, values)
    order: Ints = np.lexsort((values, groups)) if together is None else np.argsort(together)
    return order


def records(groups: Ints, values: Ints) -> Mask:
    """Which are not less than any before them in their group; groups are in ascending order."""
    found = np.ones(len(groups), np.bool_)
    same = groups[1:] == groups[:-1]
    members = np.flatnonzero(np.append(same, False) | np.append(False, same))  # of groups with more than one
    groups, values = groups[members], values[members]
    together = in_groups(groups, values)
    if together is None:
        together = in_groups(groups, np.unique(values, return_inverse=True)[1])
        assert together is not None  # nosec B101 - both are less than the number of rows now
    if len(members):
        found[members] = together == np.maximum.accumulate(together)
    return found


def as_column(values: npt.NDArray[np.generic], present: Mask | None, kind: pa.DataType) -> pa.Array:
    """`values` lie in memory as `kind` does."""
    nulls = None if present is None else ~present
    column = pa.array(values, mask=nulls)
    return column if column.type == kind else column.cast(kind) if pa.types.is_boolean(kind) else _viewed(column, kind)


def _viewed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    narrow = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[kind.bit_width // 8]
    if pa.types.is_unsigned_integer(kind):
        return pc.cast(column, kind)
    return column.cast(narrow).view(kind)
