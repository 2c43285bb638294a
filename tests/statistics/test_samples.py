"""Distances, chances and intervals of samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from falaj.statistics.distances import (
    counts_between,
    jensen_shannon,
    kolmogorov_smirnov,
    population_stability,
    quantile_edges,
    total_variation,
    weighted_kolmogorov_smirnov,
)
from falaj.statistics.intervals import bootstrap, mean_of_folds, mean_of_rows, wilson
from falaj.statistics.significance import (
    benjamini_hochberg,
    chi_square_of_counts,
    holm,
    kolmogorov_smirnov_chance,
    two_shares_chance,
)

NUMBERS = arrays.arrays(np.float64, st.integers(4, 60), elements=st.floats(-5, 5, width=16))
COUNTS = arrays.arrays(np.int64, 6, elements=st.integers(5, 500))
FEW = settings(max_examples=40)
CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@FEW
@given(NUMBERS, NUMBERS)
def test_the_largest_distance_is_that_of_scipy_with_repeated_numbers_too(first, second):
    assert kolmogorov_smirnov(first, second) == pytest.approx(stats.ks_2samp(first, second, method="asymp").statistic)
    weighted = weighted_kolmogorov_smirnov(first, np.ones(len(first)), second)
    assert weighted == pytest.approx(kolmogorov_smirnov(first, second))


@FEW
@given(COUNTS, COUNTS)
def test_chi_square_is_that_of_scipy_where_every_kind_is_frequent(first, second):
    table = np.stack([first, second])
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    statistic, chance = chi_square_of_counts(first, second)
    if expected.min() >= 5:
        known = stats.chi2_contingency(table, correction=False)
        assert (statistic, chance) == (pytest.approx(known.statistic), pytest.approx(known.pvalue, abs=1e-9))
    assert 0 <= chance <= 1


@FEW
@given(CHANCES)
def test_adjusted_chances_are_those_of_scipy_and_keep_their_order(chances):
    assert benjamini_hochberg(chances) == pytest.approx(stats.false_discovery_control(chances).tolist())
    strict = holm(chances)
    assert all(one >= was for one, was in zip(strict, chances, strict=True))
    assert np.all(np.diff(np.asarray(strict)[np.argsort(chances, kind="stable")]) >= 0)


@FEW
@given(COUNTS)
def test_what_is_alike_has_no_distance(counts):
    assert total_variation(counts, counts * 3) == pytest.approx(0, abs=1e-12)
    assert jensen_shannon(counts, counts * 3) == pytest.approx(0, abs=1e-7)
    assert population_stability(counts, counts * 3) == pytest.approx(0, abs=1e-12)


def test_what_is_disjoint_is_as_far_as_can_be():
    assert jensen_shannon([5, 0], [0, 9]) == pytest.approx(1)
    assert kolmogorov_smirnov([1, 2], [3, 4]) == total_variation([1, 0], [0, 7]) == 1.0
    assert population_stability([100, 0], [0, 100]) > 5
    assert chi_square_of_counts([7, 0], [0, 0]) == (0.0, 1.0)


def test_chances_of_equal_distributions_are_spread_evenly():
    random = np.random.default_rng(1)
    chances = []
    for _ in range(200):
        first, second = random.normal(size=300), random.normal(size=200)
        chances.append(kolmogorov_smirnov_chance(kolmogorov_smirnov(first, second), 300, 200))
    assert kolmogorov_smirnov(chances, np.linspace(0, 1, 2000)) < 0.15
    assert two_shares_chance(10, 100, 12, 100) > 0.5
    assert two_shares_chance(10, 100, 60, 100) < 1e-6


def test_bins_hold_about_equally_many_and_every_number_has_one():
    numbers = np.random.default_rng(2).exponential(size=1000)
    counts = counts_between(numbers, quantile_edges(numbers))
    assert counts.sum() == 1000
    assert counts.min() >= 99
    assert counts_between([3, 3, 3], quantile_edges([3, 3, 3])).sum() == 3


def test_intervals_hold_the_truth_as_often_as_they_say():
    random = np.random.default_rng(3)
    of_shares = of_means = of_medians = 0
    for seed in range(150):
        hits = int(random.binomial(60, 0.1))
        rows = random.exponential(size=80)
        share, mean = wilson(hits, 60), mean_of_rows(rows)
        of_shares += share.low <= 0.1 <= share.high
        of_means += mean.low <= 1 <= mean.high
        drawn = bootstrap(lambda which, rows=rows: float(np.median(rows[which])), len(rows), seed=seed, times=60)
        of_medians += drawn.low <= np.log(2) <= drawn.high
    assert [of_shares >= 135, of_means >= 132, of_medians >= 130] == [True] * 3


def test_folds_that_share_rows_are_less_sure_than_their_spread():
    scores = [0.8, 0.82, 0.78, 0.81, 0.79]
    folds, rows = mean_of_folds(scores, 0.25), mean_of_rows(np.array(scores))
    assert folds.at == pytest.approx(0.8)
    assert folds.low < rows.low < rows.high < folds.high
    assert mean_of_folds([0.5], 0.25).high == float("inf")
