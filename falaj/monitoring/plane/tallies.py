"""What was seen of one revision since it was last told: counts by the bins of a plan, sketches of what has no bins yet, and a
sample of rows. What is told of a window adds up, in any order."""

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from falaj.monitoring.plane.frames import MOST_COLUMNS, Coded, Frame, Key, Numbers
from falaj.serving.operations.planes import ColumnReport, SampledRow, SketchReport
from falaj.serving.states import Watch, WatchedColumn
from falaj.tables.bin_counts import in_precision
from falaj.tables.short_texts import shortened
from falaj.tables.window_sketches import Sketch

_LARGEST: Final = 1e100  # numbers beyond it lie in bins as others do, and in no sum: the squares of a few would be infinite
_LONGEST_ROW: Final = 20_000  # characters, as JSON
_MARKS: Final = 2 * 1024 * 1024  # bytes: numbers times edges, compared at once

Counts: TypeAlias = npt.NDArray[np.int64]


class _Column:
    """`sketch` is there while the column is learnt, from its first values on."""

    def __init__(self, key: Key, plan: WatchedColumn) -> None:
        self.key, self.edges = key, plan.edges
        self.places = {kind: place for place, kind in enumerate(plan.kinds)}
        self.is_learnt = not plan.edges and not plan.kinds
        self.counts: Counts = np.zeros(0 if self.is_learnt else len(plan.edges or plan.kinds) + 2, np.int64)
        self.finite, self.total, self.squares = 0, 0.0, 0.0
        self.sketch: Sketch | None = None

    def add_kinds(self, counts: Mapping[str, int]) -> None:
        others = len(self.places)
        for text, count in counts.items():
            self.counts[self.places.get(shortened(text), others) if text else -1] += count

    def learn(self, values: npt.NDArray[Any], *, is_hidden: bool) -> None:
        """Nothing of what is hidden: a sketch tells values."""
        if not is_hidden:
            self.sketch = self.sketch or Sketch(numbers=values.dtype != np.object_)
            self.sketch.add(values)

    def told(self) -> ColumnReport:
        name, output = self.key
        counts = tuple(self.counts.tolist())
        report = ColumnReport(
            name=name, output=output, counts=counts, finite=self.finite, total=self.total, squares=self.squares
        )
        self.counts[:] = 0
        self.finite, self.total, self.squares = 0, 0.0, 0.0
        return report


class Tally:
    """Of one plan. `random` draws the sample."""

    def __init__(self, watch: Watch, random: np.random.Generator) -> None:
        self._columns: dict[Key, _Column] = {}
        for plans, is_output in ((watch.columns, False), (watch.outputs, True)):
            for plan in plans:
                key = plan.name, is_output
                self._columns[key] = _Column(key, plan)
        self._learns_all = {False: not watch.columns, True: not watch.outputs}
        self._sample = _Sample(watch.sample, random)

    def add(self, frame: Frame) -> None:
        for key in frame.keys:
            if key not in self._columns and key not in frame.hidden and self._learns_all[key[1]] and self._has_room(key[1]):
                self._columns[key] = _Column(key, WatchedColumn(name=key[0]))
        numbers = [one for key, one in self._columns.items() if key in frame.numbers]
        if numbers:
            places = [frame.numbers[one.key] for one in numbers]
            is_all = places == [*range(len(frame.matrix))]  # which need not be copied
            self._add_numbers(numbers, frame.matrix if is_all else frame.matrix[places], frame)
        for key, one in self._columns.items():
            if key in frame.texts:
                self._add_texts(one, frame.texts[key], frame)
            elif key not in frame.numbers and not one.is_learnt:
                one.counts[-1] += frame.rows
        self._sample.add(frame)

    def told(self) -> tuple[ColumnReport, ...]:
        """Counts since this was last asked."""
        return tuple(one.told() for one in self._in_order())

    def sketches(self) -> tuple[SketchReport, ...]:
        """Since this was last asked."""
        found = []
        for one in self._in_order():
            if one.sketch is not None:
                found.append(SketchReport(name=one.key[0], output=one.key[1], sketch=one.sketch.written()))
                one.sketch = None
        return tuple(found)

    def sampled(self) -> tuple[SampledRow, ...]:
        """Since this was last asked."""
        return self._sample.told([one.key for one in self._in_order()])

    def _has_room(self, is_output: bool) -> bool:
        return sum(key[1] == is_output for key in self._columns) < MOST_COLUMNS

    def _in_order(self) -> list[_Column]:
        return sorted(self._columns.values(), key=lambda one: one.key[1])

    def _add_numbers(self, columns: Sequence[_Column], values: Numbers, frame: Frame) -> None:
        binned = [place for place, one in enumerate(columns) if one.edges]
        found = counted(values if len(binned) == len(values) else values[binned], [columns[place].edges for place in binned])
        for place, counts in zip(binned, found, strict=True):
            columns[place].counts += counts
        for one, row, (count, total, squares) in zip(columns, values, _sums(values), strict=True):
            one.finite, one.total, one.squares = one.finite + count, one.total + total, one.squares + squares
            if one.is_learnt:
                one.learn(row, is_hidden=one.key in frame.hidden)
            elif not one.edges:
                one.add_kinds(_kinds(row))

    def _add_texts(self, column: _Column, texts: Sequence[str], frame: Frame) -> None:
        if column.is_learnt:
            column.learn(np.array(texts, np.object_), is_hidden=column.key in frame.hidden)
        elif column.edges:
            column.counts += counted(np.array([[_number(text) for text in texts]]), [column.edges])[0]
        else:
            column.add_kinds(texts.counts() if isinstance(texts, Coded) else Counter(texts))


class _Sample:
    """The rows with the least draws of all: each has the same chance."""

    def __init__(self, most: int, random: np.random.Generator) -> None:
        self._most, self._random = most, random
        self._kept: list[tuple[float, dict[Key, float | str]]] = []

    def add(self, frame: Frame) -> None:
        if not self._most:
            return
        draws = self._random.random(frame.rows)
        limit = self._kept[-1][0] if len(self._kept) == self._most else 1.0
        places = np.flatnonzero(draws < limit)
        if len(places):
            best = places[np.argsort(draws[places])[: self._most]].tolist()
            rows = [(float(draws[place]), frame.row(place)) for place in best]
            self._kept = list(heapq.merge(self._kept, rows, key=lambda one: one[0]))[: self._most]

    def told(self, keys: Sequence[Key]) -> tuple[SampledRow, ...]:
        """As lists in the order of these columns. Of rows that are too long for a report there is none."""
        kept, self._kept = self._kept, []
        rows = ((draw, msgspec.json.encode([row.get(key) for key in keys]).decode()) for draw, row in kept)
        return tuple(SampledRow(draw=draw, row=row) for draw, row in rows if len(row) <= _LONGEST_ROW)


def _sums(values: Numbers) -> list[tuple[int, float, float]]:
    """Of each row of numbers: how many are finite, their sum, and that of their squares."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", values, values)
    if (squares <= _LARGEST**2).all():  # which they are not where one number is missing or too large
        return [(values.shape[1], *two) for two in zip(values.sum(axis=1).tolist(), squares.tolist(), strict=True)]
    finite = np.abs(values) <= _LARGEST
    there = np.where(finite, values, 0.0)
    sums = finite.sum(axis=1), there.sum(axis=1), np.einsum("ij,ij->i", there, there)
    return list(zip(*[some.tolist() for some in sums], strict=True))


def counted(values: npt.NDArray[np.floating[Any]], edges: Sequence[Sequence[float]]) -> list[Counts]:
    """Of each row of numbers, by its own edges: how many lie above as many of them, and how many are missing.

    All are held against all edges in a few calls, as processors compare many numbers at a time, and as each call lets go of
    Python's lock and has to wait for it again. Numbers that single precision has, as models are mostly given, are compared in
    that.
    """
    columns, rows = values.shape
    most = max(map(len, edges), default=0)
    padded = np.full((columns, most), np.inf)
    for place, some in enumerate(edges):
        padded[place, : len(some)] = some
    missing = np.isnan(values).sum(axis=1)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if np.count_nonzero(single != values) == missing.sum():
        values, padded = single, in_precision(padded, single.dtype)
    above = np.zeros((columns, most + 2), np.int64)  # as many as are above so many edges or more; none is above one edge more
    above[:, 0] = rows - missing
    width = -(-rows // 8) * 8  # in eights, so that their bits are counted in words
    at_once = max(1, _MARKS // max(1, most * width))
    for start in range(0, columns, at_once):
        some_values, some_edges = values[start : start + at_once], padded[start : start + at_once]
        marks = np.empty((len(some_values), most, width), np.bool_)
        marks[:, :, rows:] = False
        np.greater(some_values[:, None], some_edges[:, :, None], out=marks[:, :, :rows])
        above[start : start + at_once, 1:-1] = np.bitwise_count(marks.view(np.uint64)).sum(axis=2, dtype=np.int64)
    found = np.append(above[:, :-1] - above[:, 1:], missing[:, None], axis=1)
    return [
        row if len(some) == most else np.append(row[: len(some) + 1], row[-1]) for row, some in zip(found, edges, strict=True)
    ]


def _kinds(numbers: Numbers) -> Counter[str]:
    values, counts = np.unique(numbers, return_counts=True)
    return Counter(dict(zip(map(_written, values.tolist()), counts.tolist(), strict=True)))


def _written(number: float) -> str:
    """As a kind. Whole numbers without a point, as they are told elsewhere."""
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
