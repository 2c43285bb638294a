"""What counts say against what the rows themselves say, by the bins that a reference really has; and counts from many workers,
merged in any order."""

import numpy as np
import pytest
from scipy import stats

from falaj.monitoring.checking import distances_of
from falaj.monitoring.deciding import Standing, decided, distance
from falaj.monitoring.pieces import merged
from falaj.monitoring.plane.frames import Frame
from falaj.monitoring.plane.tallies import Tally
from falaj.monitoring.references import ALWAYS
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations.planes import WatchReport
from falaj.serving.plane.core.models import Shape
from falaj.statistics import distances
from tests.monitoring.simulations import seeds
from tests.monitoring.simulations.features import (
    column,
    counts,
    few_values,
    gappy,
    gappy_kinds,
    heavy,
    kinds,
    normal,
    reference,
    skewed,
)
from tests.monitoring.streams import SHIPPED

NUMBERS = [normal, heavy, skewed, few_values]
CHANGES = {
    "the same": lambda values: values,
    "moved": lambda values: values + 0.4,
    "wider": lambda values: values * 1.5,
    "turned": lambda values: -values,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("draw", NUMBERS)
def test_distances_of_numbers_are_within_their_bounds_of_the_exact_ones(draw, change):
    random = np.random.default_rng(seeds.DISTANCES)
    for rows in (100, 1000, 5000):
        usual, seen = draw(random, 10_000), CHANGES[change](draw(random, rows))
        of = column("x", usual)
        before, after = np.array(of.counts[ALWAYS]), np.array(counts(of, seen))
        found = distances_of(of, before.tolist(), after.tolist())
        shares = before[:-1] / before.sum(), after[:-1] / after.sum()
        exact = stats.ks_2samp(usual, seen).statistic
        largest = max(min(one, other) for one, other in zip(*shares, strict=True))
        assert found["ks"] == pytest.approx(distance(of, before.tolist(), after.tolist()))
        assert exact - largest - 1e-6 <= found["ks"] <= exact + 1e-9

        low, high = of.edges[0], of.edges[-1]
        widths = np.diff([low, *of.edges, high])
        inside = np.clip(seen, low, high)
        wrong = float(((shares[0] + shares[1]) / 2 * widths).sum())
        assert abs(found["wasserstein"] - stats.wasserstein_distance(usual, inside)) <= wrong + 1e-9


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("draw", NUMBERS)
def test_bins_never_make_two_distributions_look_further_apart_than_finer_ones_do(draw, change):
    random = np.random.default_rng(seeds.DISTANCES + 1)
    usual, seen = draw(random, 20_000), CHANGES[change](draw(random, 20_000))
    of = column("x", usual)
    finer = np.unique(np.concatenate([of.edges, np.quantile(usual, np.linspace(0, 1, 201))]))
    coarse = counts(of, usual)[:-1], counts(of, seen)[:-1]
    fine = tuple(distances.counts_between(values, finer) for values in (usual, seen))
    for measure in (distances.jensen_shannon, distances.cramer, distances.total_variation):
        assert measure(*coarse) <= measure(*fine) + 1e-9


def test_distances_of_kinds_are_exact_where_each_has_a_bin():
    random = np.random.default_rng(seeds.DISTANCES + 2)
    usual, seen = random.choice(["a", "b", "c"], 5000).astype(object), random.choice(["a", "b", "d"], 3000).astype(object)
    of = column("x", usual)
    names = ["a", "b", "c", "d"]
    shares = [np.array([(values == name).mean() for name in names]) for values in (usual, seen)]
    assert distance(of, of.counts[ALWAYS], counts(of, seen)) == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)
    assert distances_of(of, of.counts[ALWAYS], counts(of, seen))["jensen-shannon"] == pytest.approx(
        float(stats.entropy(np.mean(shares, axis=0), base=2) - np.mean([stats.entropy(one, base=2) for one in shares])) ** 0.5
    )


DRAWS = [normal, heavy, gappy, kinds, gappy_kinds, few_values]
SHAPE = Shape(
    platform="onnx",
    inputs=tuple(
        TensorSpec(name=f"f{number}", datatype="BYTES" if draw in (kinds, gappy_kinds) else "FP64", shape=(-1, 1))
        for number, draw in enumerate(DRAWS)
    ),
    outputs=(),
    columns=(),
)


class Worker:
    """Counts as the tap of a plane's worker does, and tells it in as many pieces as it is asked to."""

    def __init__(self, watch):
        self._tally, self._rows = Tally(watch, np.random.default_rng()), 0

    def see(self, rows):
        arrays = [_encoded(values).reshape(-1, 1) for values in rows]
        self._tally.add(Frame(SHAPE, arrays, [], len(rows[0])))
        self._rows += len(rows[0])

    def told(self):
        rows, self._rows = self._rows, 0
        report = {"endpoint": "e", "revision": 1, "plan": "plan", "at": 0, "seconds": 60}
        return WatchReport(**report, rows=rows, columns=self._tally.told())


def _encoded(values):
    if values.dtype != np.object_:
        return values
    return np.array([text.encode() for text in values], dtype=object)


def test_windows_of_any_number_of_workers_cut_and_merged_in_any_order_give_the_same_verdicts():
    random = np.random.default_rng(seeds.MERGING)
    against = reference(random, DRAWS, 5000)
    watch = against.watch(60, 0)
    changed = [[draw(random, 300) for draw in DRAWS] for _ in range(6)]
    for rows in changed[2:]:
        rows[0] += 0.8
        rows[3][random.random(300) < 0.3] = "never seen"

    def verdicts(workers, shuffled):
        standing, told, before = Standing(detectors={}), [], []
        for rows in changed:
            crew = [Worker(watch) for _ in range(workers)]
            places, pieces = shuffled.permutation(300), []
            for some in np.array_split(places, shuffled.integers(1, 40)):
                worker = crew[shuffled.integers(workers)]
                if len(some):
                    worker.see([values[some] for values in rows])
                if shuffled.random() < 0.3:
                    pieces.append(worker.told())
            pieces += [worker.told() for worker in crew]
            window = merged(0, 60, "plan", [pieces[place] for place in shuffled.permutation(len(pieces))])
            assert window.rows == 300
            before.append({one.label: window.column(one.name, is_output=False).counts for one in against.columns})

            def pooled(label, back):
                return np.sum([one[label] for one in before[-back:]], axis=0).tolist()

            standing, outcomes = decided(against, standing, ALWAYS, before[-1], SHIPPED, pooled)
            told.append(outcomes)
        return standing, told

    whole = verdicts(1, np.random.default_rng(1))
    assert {one.column for one in whole[1][-1] if one.drifting} == {"f0", "f3"}
    assert not any(one.drifting for outcomes in whole[1][:2] for one in outcomes)
    for seed in range(8):
        assert verdicts(int(random.integers(1, 9)), np.random.default_rng(seed)) == whole
