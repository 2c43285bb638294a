"""Drifts of known size in one of a hundred features, found within a stated number of rows, and named."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.monitoring.simulations import seeds
from tests.monitoring.simulations.features import Draw, gappy, heavy, kinds, normal, reference, skewed, window
from tests.monitoring.streams import SHIPPED, judged

FEATURES, REALLY, ROWS = 10, 100, 200
LEARNT = 10_000


def shifted(by: float) -> Draw:
    return lambda random, rows: normal(random, rows) + by


def wider(random: np.random.Generator, rows: int) -> np.ndarray:
    return normal(random, rows) * 1.75


def dearer(random: np.random.Generator, rows: int) -> np.ndarray:
    return skewed(random, rows) * 3.0


def moved_tail(random: np.random.Generator, rows: int) -> np.ndarray:
    return heavy(random, rows) + 1.0


def renamed(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(random.random(rows) < 0.2, "never seen", kinds(random, rows))


def emptied(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(random.random(rows) < 0.2, np.nan, normal(random, rows))


def emptier(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(random.random(rows) < 0.25, np.nan, gappy(random, rows))


def coin(chance: float) -> Draw:
    return lambda random, rows: np.where(random.random(rows) < chance, "heads", "tails").astype(object)


CASES = [
    pytest.param(normal, shifted(0.35), 1000, id="a shift by 0.35 standard deviations"),
    pytest.param(normal, shifted(-0.5), 600, id="a shift by half of one"),
    pytest.param(normal, shifted(1.0), 400, id="a shift by one"),
    pytest.param(normal, wider, 400, id="a spread wider by three quarters"),
    pytest.param(skewed, dearer, 600, id="prices three times as high"),
    pytest.param(heavy, moved_tail, 600, id="a heavy tail that moved"),
    pytest.param(kinds, renamed, 600, id="a fifth of a kind that nobody knows"),
    pytest.param(normal, emptied, 400, id="a fifth that is missing"),
    pytest.param(gappy, emptier, 1400, id="gaps of a third that become a half"),
    pytest.param(coin(0.5), coin(0.65), 1600, id="one of two kinds that comes by 15 in a hundred oftener"),
]


def found_within(random: np.random.Generator, before: Draw, after: Draw, within: int) -> bool:
    """Among nine features that stay, by the budget of a hundred: what each has to reach depends on the product alone."""
    rule = replace(SHIPPED, one_in=SHIPPED.one_in * REALLY // FEATURES)
    draws = [before] * FEATURES
    against = reference(random, draws, LEARNT)
    changed = [after, *draws[1:]]
    quiet = (window(random, against, draws, ROWS) for _ in range(3))
    windows = itertools.chain(quiet, (window(random, against, changed, ROWS) for _ in range(within // ROWS)))
    named = {one.column for outcomes in judged(against, windows, rule) for one in outcomes if one.drifting}
    assert named <= {"f0"}
    return bool(named)


@pytest.mark.parametrize(("before", "after", "within"), CASES)
def test_a_drift_is_found_within_so_many_rows_and_named(before, after, within):
    random = np.random.default_rng(seeds.DRIFTS)
    assert all(found_within(random, before, after, within) for _ in range(3))


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("before", "after", "within"), CASES)
def test_nearly_every_time(before, after, within):
    random, times = np.random.default_rng(seeds.DRIFTS + 1), 100
    found = sum(found_within(random, before, after, within) for _ in range(times))
    print(f"{found} of {times} found within {within} rows")
    assert found >= 95
