"""Experiments without a difference, looked at after every observation, and such with one."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.monitoring.simulations import seeds
from tests.statistics.test_contests import decided
from tests.statistics.two_arms import TwoArms

Random = np.random.Generator
BOUNDED = {"low": 0.0, "high": 1.0}


def first_verdict(random: Random, going: TwoArms, outcome: Callable[[bool], tuple[float, float]], rows: int) -> int:
    """After how many rows; 0 for none. `outcome` says what comes of a row of either arm, and what was known of it before."""
    for row in range(1, rows + 1):
        is_candidate = random.random() < going.share
        came, known = outcome(is_candidate)
        going = going.drawn(np.array([is_candidate]), np.array([came]), np.array([known]))
        if going.contest.excludes(0.0):
            return row
    return 0


def test_of_2000_experiments_without_a_difference_at_most_one_in_twenty_is_ever_decided():
    """All at once; one by one is the heavy one."""
    found = decided(np.random.default_rng(seeds.EXPERIMENTS), 0.3, 0.3, experiments=2000, rows=2000)
    assert (found > 0).sum() <= 100


def test_a_difference_of_five_points_is_found_by_nearly_all_experiments_within_8000_rows():
    found = decided(np.random.default_rng(seeds.POWER), 0.10, 0.15, experiments=500, rows=8000)
    assert (found > 0).mean() >= 0.95
    assert np.median(found[found > 0]) <= 3000


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_one_by_one_and_row_by_row_2000_of_them_are_decided_no_oftener():
    random = np.random.default_rng(seeds.EXPERIMENTS)
    false = 0
    for _ in range(2000):
        going = TwoArms(share=0.5, **BOUNDED)
        false += first_verdict(random, going, lambda _: (float(random.random() < 0.3), 0.0), rows=1000) > 0
    print(f"{false} false verdicts of 2000")
    assert false <= 100


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("share", "bounds", "outcome"),
    [
        (0.1, BOUNDED, lambda random: (float(random.random() < 0.05), 0.0)),
        (0.5, BOUNDED, lambda random: (random.random(), 0.0)),
        (0.5, {}, lambda random: (random.normal(10, 3), 0.0)),
        (0.3, {}, lambda random: (lambda known: (10 + 3 * known + random.normal(), known))(random.normal())),
        (0.5, {}, lambda random: (random.lognormal(0, 1), 0.0)),
    ],
    ids=["rare, for a tenth", "within bounds", "without bounds", "with what was known before", "skewed, without bounds"],
)
def test_other_experiments_without_a_difference_are_decided_no_oftener(share, bounds, outcome):
    random = np.random.default_rng(seeds.OTHER_EXPERIMENTS)
    experiments = 200
    verdicts = [
        first_verdict(random, TwoArms(share=share, **bounds), lambda _: outcome(random), 1000) for _ in range(experiments)
    ]
    false = sum(row > 0 for row in verdicts)
    print(f"{false} false verdicts of {experiments}")
    assert false <= 0.05 * experiments
