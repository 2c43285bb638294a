"""Exact sums of a column, and what no exact sum can have in it: infinities and NaN are counted beside."""

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables.joining.arrays import Floats, Ints, Mask
from falaj.tables.joining.digits import Totals, of_floats, of_integers


class ColumnTotals:
    """Asked for its sums once everything was added."""

    def __init__(self, count: int, kind: pa.DataType) -> None:
        self._floats = pa.types.is_floating(kind)
        self._totals, self._count = Totals(count), count
        self._strange: dict[str, Ints] = {}

    def add(self, values: npt.NDArray[Any], first: Ints, past: Ints) -> None:
        if not self._floats:
            self._totals.add(of_integers(values), first, past)
            return
        numbers = values.astype(np.float64, copy=False)
        finite = np.isfinite(numbers)
        if not finite.all():
            for name, which in (("nan", np.isnan(numbers)), ("up", numbers == np.inf), ("down", numbers == -np.inf)):
                counts = self._strange.setdefault(name, np.zeros(self._count + 1, np.int64))
                np.add.at(counts, first[which], 1)
                np.subtract.at(counts, past[which], 1)
            numbers, first, past = numbers[finite], first[finite], past[finite]
        self._totals.add(of_floats(numbers), first, past)

    @cached_property
    def rounded(self) -> Floats:
        sums = self._totals.sums().as_float64(of_floats=self._floats)
        if not self._strange:
            return sums
        nan, up, down = (np.cumsum(self._strange[name][:-1]) > 0 for name in ("nan", "up", "down"))
        sums = np.where(up, np.inf, np.where(down, -np.inf, sums))
        return np.where(nan | (up & down), np.nan, sums)

    def in_their_type(self, present: Mask, *, features: Collection[str]) -> npt.NDArray[Any]:
        """Raises `Invalid`, naming the features, for a sum of integers that an int64 does not hold."""
        if self._floats:
            return self.rounded
        sums, beyond = self._totals.sums().as_int64()
        if (beyond & present).any():
            raise Invalid(
                f"A sum for {', '.join(sorted(features))} is beyond what an int64 holds: convert the column to float64 before."
            )
        return sums


def sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_duration(kind) else pa.int64()
