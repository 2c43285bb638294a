"""What is counted, summed and compared over a period: one column of a view's rows, for every label."""

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.arrow_schemas import type_word
from falaj.tables.joining.arrays import Ints, Mask, as_column, valid
from falaj.tables.joining.distincts import Distincts
from falaj.tables.joining.extremes import Least, from_keys, has_extremes, ordered_keys
from falaj.tables.joining.slots import Seen, Slots, Spans
from falaj.tables.joining.totals import ColumnTotals, sum_type
from falaj.tables.joining.views import Function

_LAID_OUT: Final = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@value
class Found:
    """One value for each slot, laid out as `kind` is; None for `present` where all are. Labels without a slot are as if they
    saw nothing: null, or 0 where all are present."""

    values: npt.NDArray[Any]
    present: Mask | None
    kind: pa.DataType

    def for_labels(self, slots: Slots, count: int) -> pa.Array:
        values = np.zeros(count, self.values.dtype)
        values[slots.order] = self.values
        if self.present is None:
            return as_column(values, None, self.kind)
        present = np.zeros(count, np.bool_)
        present[slots.order] = self.present
        return as_column(values, present, self.kind)


class Window:
    """Of one column (or of rows as such, without a name) and one period: what some functions of it are."""

    def __init__(self, slots: Slots, *, name: str, kind: pa.DataType, functions: Collection[Function]) -> None:
        self._name, self._kind, self._slots = name, kind, slots
        self._functions = frozenset(functions)
        self._counts = np.zeros(slots.count + 1, np.int64)
        self._totals = ColumnTotals(slots.count, kind) if self._functions & {"sum", "mean"} else None
        self._least = Least(slots.count) if "min" in self._functions else None
        self._greatest = Least(slots.count) if "max" in self._functions else None
        self._distincts = Distincts(slots.count, kind) if "distinct" in self._functions else None

    def add(self, some: Seen, window: Spans, table: pa.Table) -> None:
        rows, first, past = some.rows[window.at], window.first, window.past
        if self._name and (there := valid(table.column(self._name))) is not None:
            present = np.flatnonzero(there[rows])
            rows, first, past = rows[present], first[present], past[present]
        np.add.at(self._counts, first, 1)
        np.subtract.at(self._counts, past, 1)
        if self._distincts is not None:
            self._distincts.add(table.column(self._name).combine_chunks().take(pa.array(rows)), first, past)
        if self._totals is None and self._least is None and self._greatest is None:
            return
        values = _numbers(table.column(self._name))[rows]
        if self._totals is not None:
            self._totals.add(values, first, past)
        if self._least is not None:
            self._least.add(ordered_keys(values, greatest=False), first, past)
        if self._greatest is not None:
            self._greatest.add(ordered_keys(values, greatest=True), first, past)

    def finish(self, *, features: Collection[str]) -> dict[Function, Found]:
        """`features` are named in what is raised."""
        counts: Ints = np.cumsum(self._counts[:-1])
        present = counts > 0
        found: dict[Function, Found] = {"count": Found(values=counts, present=None, kind=pa.int64())}
        if self._totals is not None:
            if "mean" in self._functions:
                means = self._totals.rounded / np.maximum(counts, 1)
                found["mean"] = Found(values=means, present=present, kind=pa.float64())
            if "sum" in self._functions:
                sums = self._totals.in_their_type(present, features=features)
                found["sum"] = Found(values=sums, present=present, kind=sum_type(self._kind))
        for word, least in (("min", self._least), ("max", self._greatest)):
            if least is not None:
                values = from_keys(np.where(present, least.keys, 0), _layout(self._kind), greatest=word == "max")
                found[word] = Found(values=values, present=present, kind=self._kind)  # type: ignore[index]
        if self._distincts is not None:
            found["distinct"] = Found(values=self._distincts.finish(), present=None, kind=pa.int64())
        return found


def result_type(function: Function, kind: pa.DataType, *, feature: str) -> pa.DataType:
    """Of a function of a column of `kind`. Raises `Invalid` where there is no such thing."""
    if function == "last":
        return kind
    if function == "count":
        return pa.int64()
    if function == "distinct" and not pa.types.is_nested(kind):
        return pa.int64()
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if function == "sum" and (numbers or pa.types.is_duration(kind)):
        return sum_type(kind)
    if function == "mean" and numbers:
        return pa.float64()
    if function in ("min", "max") and has_extremes(kind):
        return kind
    raise Invalid(
        f"Feature {feature!r} is the {function} of a column that holds {type_word(kind, of=feature)}, which has none: "
        "convert the column before."
    )


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Nulls are something; who asks has left them out."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    if column.null_count:
        column = column.fill_null(pa.scalar(0).cast(column.type))
    numbers: npt.NDArray[Any] = column.to_numpy()
    return numbers


def _layout(kind: pa.DataType) -> npt.DTypeLike:
    if pa.types.is_temporal(kind):
        return _LAID_OUT[kind.bit_width]
    layout: npt.DTypeLike = kind.to_pandas_dtype()
    return layout
