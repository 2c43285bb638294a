"""Features of several laws, as columns of a reference and as the windows that follow it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from falaj.monitoring.binning import bins_of
from falaj.monitoring.drawing import MOST_SAMPLED
from falaj.monitoring.pieces import Merged
from falaj.monitoring.references import ALWAYS, MOST_KINDS, RANKS, Column, Reference, Sample, edges_of
from falaj.serving.operations.planes import SampledRow
from falaj.tables.bin_counts import count_bins
from falaj.tables.counting import counted, surveyed
from tests.monitoring.streams import settled

Random = np.random.Generator
Draw = Callable[[Random, int], np.ndarray]  # of numbers, with NaN where one is missing, or of texts
OF_WINDOW = 100  # rows that a worker samples
KINDS = np.array([f"kind {number}" for number in range(50)], dtype=object)  # more than have a bin of their own
_WEIGHTS = 1 / np.arange(1, 51)


def normal(random: Random, rows: int) -> np.ndarray:
    return random.standard_normal(rows)


def heavy(random: Random, rows: int) -> np.ndarray:
    """Without a mean, let alone a spread."""
    return random.standard_cauchy(rows)


def skewed(random: Random, rows: int) -> np.ndarray:
    return random.lognormal(3, 2, rows)


def few_values(random: Random, rows: int) -> np.ndarray:
    """Most bins of which are the same."""
    return random.poisson(0.7, rows).astype(float)


def kinds(random: Random, rows: int) -> np.ndarray:
    return random.choice(KINDS, rows, p=_WEIGHTS / _WEIGHTS.sum())


def gappy(random: Random, rows: int) -> np.ndarray:
    return np.where(random.random(rows) < 0.3, np.nan, random.standard_normal(rows))


def gappy_kinds(random: Random, rows: int) -> np.ndarray:
    return np.where(random.random(rows) < 0.02, "", kinds(random, rows))


class Held:
    """Rows of one column in memory, to be surveyed and counted as those of a table."""

    def __init__(self, values: np.ndarray) -> None:
        is_text = values.dtype == np.object_
        self._column, self.rows = pa.array(values, pa.string() if is_text else pa.float64()), len(values)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([self._column] * len(columns), names=list(columns))


def column(name: str, values: np.ndarray) -> Column:
    """With bins chosen and filled by these rows."""
    found = surveyed(Held(values), [name], ranks=RANKS, kinds=MOST_KINDS)[name]
    bins = Column(name=name, kinds=found.kinds) if found.kinds else Column(name=name, edges=edges_of(found.quantiles))
    return bins.with_counts(ALWAYS, counts(bins, values))


def counts(by: Column, values: np.ndarray) -> list[int]:
    if by.edges:
        return count_bins(values, by.edges).tolist()
    return counted(Held(values), bins_of([by]))[by.name][ALWAYS]


def reference(random: Random, draws: Sequence[Draw], rows: int) -> Reference:
    return settled([column(f"f{number}", draw(random, rows)) for number, draw in enumerate(draws)])


def window(random: Random, against: Reference, draws: Sequence[Draw], rows: int) -> dict[str, list[int]]:
    return counted_window(against, [draw(random, rows) for draw in draws])


def counted_window(against: Reference, values: Sequence[np.ndarray]) -> dict[str, list[int]]:
    return {one.label: counts(one, some) for one, some in zip(against.columns, values, strict=True)}


def sampled_reference(random: Random, draws: Sequence[Draw], rows: int) -> Reference:
    """With rows, by which all columns are told apart together."""
    values = [draw(random, rows) for draw in draws]
    found = settled([column(f"f{number}", some) for number, some in enumerate(values)])
    names = tuple(one.name for one in found.columns)
    return replace(found, sample=Sample(names=names, rows=tuple(_rows(values, MOST_SAMPLED))))


def sampled_window(against: Reference, values: Sequence[np.ndarray]) -> Merged:
    sampled = tuple(SampledRow(draw=0.5, row=json.dumps(row)) for row in _rows(values, OF_WINDOW))
    order = tuple((one.name, False) for one in against.columns)
    return Merged(at=0, seconds=60, rows=len(values[0]), order=order, sampled=sampled)


def _rows(values: Sequence[np.ndarray], most: int) -> Iterator[tuple[float | str | None, ...]]:
    """The first ones; what is missing is None."""
    held = [pa.array(some[:most], from_pandas=True).to_pylist() for some in values]
    return zip(*([one or None if isinstance(one, str) else one for one in some] for some in held), strict=True)


def thinner(against: Reference, columns: int) -> Reference:
    return replace(against, columns=against.columns[:columns])
