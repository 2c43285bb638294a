"""How many different values each slot sees."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.tables.joining.arrays import Ints

_WAITING: Final = 1 << 22
_Runs = tuple[Ints, Ints, Ints]  # which value, its first slot, the one behind its last
_NO_RUNS: Final[_Runs] = (np.empty(0, np.int64),) * 3


class Distincts:
    """Each value counts once for the slots that see any row of it: runs of slots that overlap are cut to those not covered yet.
    Holds what is left of the runs, and each different value once."""

    def __init__(self, count: int, kind: pa.DataType) -> None:
        self._count = count
        self._values: pa.Array = pa.array([], kind)
        self._runs: list[_Runs] = []
        self._cut, self._waiting = 0, 0

    def add(self, values: pa.Array, first: Ints, past: Ints) -> None:
        """None of the values is null."""
        self._runs.append((self._numbered(_equal_bits(values)), first, past))
        self._waiting += len(first)
        if self._waiting > max(_WAITING, self._cut):
            self._cut_runs()

    def finish(self) -> Ints:
        _, first, past = self._cut_runs()
        changes = np.bincount(first, minlength=self._count + 1) - np.bincount(past, minlength=self._count + 1)
        return np.cumsum(changes[:-1])

    def _numbered(self, values: pa.Array) -> Ints:
        new = values.filter(pc.invert(pc.is_in(values, value_set=self._values))).unique()
        if len(new):
            self._values = pa.concat_arrays([self._values, new])
        numbers: Ints = pc.index_in(values, value_set=self._values).to_numpy().astype(np.int64)
        return numbers

    def _cut_runs(self) -> _Runs:
        value, first, past = (np.concatenate(columns) for columns in zip(_NO_RUNS, *self._runs, strict=True))
        lines = value * (self._count + 1)  # the slots of one value lie behind those of another
        order = np.argsort(lines + first)
        value, first, past, lines = value[order], first[order], past[order], lines[order]
        covered = np.zeros(len(lines), np.int64)
        covered[1:] = np.maximum.accumulate(lines + past)[:-1]
        first = np.maximum(first, covered - lines)
        left = np.flatnonzero(first < past)
        self._runs = [(value[left], first[left], past[left])]
        self._cut, self._waiting = len(left), 0
        return self._runs[0]


def _equal_bits(values: pa.Array) -> pa.Array:
    """Floats that count as equal have the same bits then."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), pc.add(values, pa.scalar(0.0, values.type)))
