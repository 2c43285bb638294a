"""Falaj's own rule over streams of windows. The last line is JSON.

monitoring_streams.py alarms FOLDER             how many windows of windows.parquet are called drifted, that are not
monitoring_streams.py delay SHIFT ONE_IN ROWS FEATURES TRIALS SEED
                                                rows until a shift is called: as it ships, and by a threshold that really
                                                gives one false alarm in so many windows, all features together
"""

import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from falaj.monitoring.binning import bins_of, countable, settled, with_bins
from falaj.monitoring.deciding import MOST_POOLED, Outcome, Rule, Standing, decided
from falaj.monitoring.files import DEFAULTS
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import ALWAYS, MOST_KINDS, RANKS, Column, Reference, edges_of
from falaj.statistics.detectors import Alternatives, alternatives, fresh, reference_shares, watched
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.bin_counts import count_bins
from falaj.tables.counting import Countable, ParquetRows, counted, surveyed

FLOOR: Final = 0.05  # a shift by 0.2 is a distance of 0.08, which is less than what matters as shipped
QUIET: Final = 5  # windows before the shift
_MOST: Final = 1000
_AT_ONCE, _TIMES, _WATCHED = 1000, 5, 400  # references held at once, how often, and windows of each
Numbers = NDArray[np.float64]
Counts = Mapping[str, Sequence[int]]


class Held:
    """A window in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.rows = table, table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).combine_chunks().to_batches()


def alarms(folder: Path) -> dict[str, float]:
    usual, windows = ParquetRows(folder / "reference.parquet"), pq.ParquetFile(folder / "windows.parquet")
    schema = from_arrow(usual.schema)
    columns = with_bins(schema, surveyed(usual, countable(schema, schema.names), ranks=RANKS, kinds=MOST_KINDS))
    reference = Reference(key="", source="", columns=settled(columns, counted(usual, bins_of(columns))))
    some = (_counts(Held(windows.read_row_group(place)), columns) for place in range(windows.num_row_groups))
    told = [*judged(reference, some, DEFAULTS)]
    called = sum(any(one.drifting for one in outcomes) for outcomes in told)
    beyond = sum(any(one.evidence >= 1 for one in outcomes) for outcomes in told)
    return {"windows": len(told), "alarms": called, "without_floor": beyond}


def _counts(window: Countable, columns: Sequence[Column]) -> Counts:
    return {name: some[ALWAYS] for name, some in counted(window, bins_of(columns)).items()}


def judged(reference: Reference, windows: Iterator[Counts], rule: Rule) -> Iterator[list[Outcome]]:
    """Window by window, as a monitor keeps and pools them."""
    standing, before = Standing(detectors={}), list[Counts]()
    for counts in windows:
        before = [*before[1 - MOST_POOLED :], counts]

        def pooled(label: str, back: int, kept: Sequence[Counts] = tuple(before)) -> Sequence[int]:
            together: list[int] = np.sum([one[label] for one in kept[-back:]], axis=0).tolist()
            return together

        standing, outcomes = decided(reference, standing, ALWAYS, counts, rule, pooled)
        yield outcomes


def delay(shift: float, one_in: int, rows: int, features: int, trials: int, seed: int) -> dict[str, float]:
    """A budget for one of many features is that of so many windows of it alone, so that one has to be watched, and not all."""
    random = np.random.default_rng(seed)
    budgets = {"shipped": features * Wishes().one_in, "equal": calibrated(random, rows, one_in * features)}
    return {
        name: float(np.mean([until_called(random, rows, shift, Rule(floor=FLOOR, one_in=budget)) for _ in range(trials)]))
        for name, budget in budgets.items()
    } | {"budget": budgets["equal"]}


def until_called(random: np.random.Generator, rows: int, shift: float, rule: Rule) -> float:
    """The shift begins anywhere within a window, after some that are quiet. Where one of those is called, it does not count."""
    column, offset = learnt(random), int(random.integers(0, rows))
    reference = Reference(key="", source="", columns=(column,))

    def windows() -> Iterator[Counts]:
        for number in range(QUIET + _MOST):
            numbers = random.standard_normal(rows)
            numbers[min(rows, max(0, (QUIET - number) * rows + offset)) :] += shift
            yield {column.label: count_bins(numbers, column.edges).tolist()}

    for number, outcomes in enumerate(judged(reference, windows(), rule)):
        if any(one.drifting for one in outcomes):
            found = (number + 1 - QUIET) * rows - offset
            return found if found > 0 else until_called(random, rows, shift, rule)
    return math.inf


def learnt(random: np.random.Generator) -> Column:
    """As much of normal numbers as a monitor learns, as it ships."""
    seen = random.standard_normal(Wishes().learn_rows)
    column = Column(name="x", edges=edges_of(np.quantile(seen, RANKS).tolist()))
    (found,) = settled([column], {"x": {ALWAYS: count_bins(seen, column.edges).tolist()}})
    return found


def calibrated(random: np.random.Generator, rows: int, windows: int) -> int:
    """The budget by which one feature is really called once in so many windows: what is promised is more than is kept."""
    highest = np.concatenate([_highest(random, rows) for _ in range(_TIMES)])
    allowed = max(1, round(_TIMES * _AT_ONCE * _WATCHED / windows))
    return round(math.exp(np.sort(highest)[-allowed]))


def _highest(random: np.random.Generator, rows: int) -> Numbers:
    """Of many features, each with a reference of its own, the most evidence in any of many quiet windows: what `watched` says,
    for all of them at once."""
    columns = [learnt(random) for _ in range(_AT_ONCE)]
    against = [_against(column) for column in columns]
    bins, bets = max(one.bins for one in columns), max(len(one.stakes) for one in against)
    times, stakes = np.zeros((_AT_ONCE, bets, bins)), np.full((_AT_ONCE, bets), -math.inf)
    laws = np.zeros((_AT_ONCE, bins))
    for place, (column, one) in enumerate(zip(columns, against, strict=True)):
        times[place, : len(one.stakes), : column.bins], stakes[place, : len(one.stakes)] = one.times, one.stakes
        below = [NormalDist().cdf(edge) for edge in column.edges]
        laws[place, : len(below) + 1] = np.diff([0.0, *below, 1.0])
    won, most, first = np.full((_AT_ONCE, bets), -math.inf), np.full(_AT_ONCE, -math.inf), fresh(against[0])
    for number in range(_WATCHED):
        counts = random.multinomial(rows, laws)
        won = np.logaddexp(won, 0.0) + np.einsum("fab,fb->fa", times, counts)
        evidence = np.logaddexp.reduce(won + stakes, axis=1)
        most = np.maximum(most, evidence)
        if number < QUIET:
            told = watched(first, counts[0][: columns[0].bins], against[0])
            first = told.detector
            if abs(told.evidence - evidence[0]) > 1e-6:
                raise SystemExit(f"All at once gave {evidence[0]} where one by one gives {told.evidence}.")
    return most


def _against(column: Column) -> Alternatives:
    usual = column.counts[ALWAYS]
    return alternatives(reference_shares(usual), ordered=column.ordered, rows=sum(usual))


def main(what: str, *given: str) -> dict[str, Any]:
    if what == "alarms":
        return alarms(Path(given[0]))
    shift, numbers = float(given[0]), [*itertools.islice(map(int, given[1:]), 5)]
    return delay(shift, *numbers)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
