"""What counts by bin say, against what the numbers themselves say."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from falaj.statistics.distances import (
    counts_between,
    cramer,
    jensen_shannon,
    kolmogorov_smirnov,
    kolmogorov_smirnov_of_counts,
    population_stability,
    quantile_edges,
    total_variation,
    wasserstein_of_counts,
)
from falaj.statistics.significance import chi_square_of_counts

MANY = settings(max_examples=150)
NUMBERS = arrays.arrays(np.float64, st.integers(1, 60), elements=st.floats(-5, 5, width=16))
EDGES = st.lists(st.floats(-5, 5, width=16), min_size=1, max_size=8, unique=True).map(sorted)
COUNTS = arrays.arrays(np.int64, 6, elements=st.integers(0, 500)).filter(lambda counts: counts.sum() > 0)
DISTANCES = [kolmogorov_smirnov_of_counts, population_stability, jensen_shannon, cramer, total_variation]


def exact_wasserstein(first: np.ndarray, second: np.ndarray) -> float:
    places = np.unique(np.concatenate([first, second]))
    apart = [abs(np.mean(first <= place) - np.mean(second <= place)) for place in places[:-1]]
    return float(np.dot(apart, np.diff(places)))


@MANY
@given(NUMBERS, NUMBERS, EDGES)
def test_the_largest_distance_of_counts_is_short_by_the_largest_common_bin_at_most(first, second, edges):
    left, right = counts_between(first, edges), counts_between(second, edges)
    exact, found = kolmogorov_smirnov(first, second), kolmogorov_smirnov_of_counts(left, right)
    common = np.minimum(left / left.sum(), right / right.sum()).max()
    assert found - 1e-12 <= exact <= found + common + 1e-12


@MANY
@given(NUMBERS, NUMBERS, EDGES)
def test_how_far_numbers_moved_is_known_within_half_a_bin(first, second, edges):
    left, right = counts_between(first, edges), counts_between(second, edges)
    found = wasserstein_of_counts(left, right, edges, -5.0, 5.0)
    widths = np.diff([-5.0, *edges, 5.0])
    bound = (widths * (left / left.sum() + right / right.sum())).sum() / 2
    assert abs(found - exact_wasserstein(first, second)) <= bound + 1e-9


@MANY
@given(COUNTS, COUNTS, EDGES.filter(lambda edges: len(edges) == 5))
def test_it_is_the_exact_one_of_numbers_that_lie_evenly(first, second, edges):
    places = np.array([-6.0, *edges, 6.0])
    grid = np.concatenate([np.linspace(start, end, 400, endpoint=False) for start, end in itertools.pairwise(places)])
    below = [np.interp(grid, places, np.concatenate([[0], np.cumsum(one) / one.sum()])) for one in (first, second)]
    exact = (np.abs(below[0] - below[1]) * np.diff(np.append(grid, 6.0))).sum()
    assert wasserstein_of_counts(first, second, edges, -6.0, 6.0) == pytest.approx(exact, abs=0.02)


def test_a_shift_has_the_unit_of_the_feature():
    numbers = np.random.default_rng(1).normal(20, 4, 50_000)
    edges = quantile_edges(numbers, 20)
    moved = numbers + 1.5
    least, largest = np.quantile(numbers, [0.005, 0.995])
    found = wasserstein_of_counts(counts_between(numbers, edges), counts_between(moved, edges), edges, least, largest)
    assert found == pytest.approx(1.5, abs=0.2)


@MANY
@given(COUNTS, COUNTS)
def test_coarser_bins_never_see_more(first, second):
    """Of the same rows: none of these distances grows when bins are put together."""
    for distance in (kolmogorov_smirnov_of_counts, jensen_shannon, cramer, total_variation):
        coarse = distance(first.reshape(3, 2).sum(axis=1), second.reshape(3, 2).sum(axis=1))
        assert coarse <= distance(first, second) + 1e-9


@MANY
@given(arrays.arrays(np.int64, 6, elements=st.integers(5, 500)), st.permutations(range(6)))
def test_cramer_is_that_of_scipy_where_both_have_as_many_rows(counts, order):
    other = counts[order]
    found = cramer(counts, other)
    assert found == pytest.approx(stats.contingency.association(np.stack([counts, other])), abs=1e-9)
    assert found == pytest.approx(cramer(counts * 7, other), abs=1e-9)  # and does not grow with rows
    if (expected := (counts + other) / 2).min() >= 5 and expected.sum():
        assert chi_square_of_counts(counts, other)[0] == pytest.approx(found**2 * 2 * counts.sum(), abs=1e-6)


@pytest.mark.parametrize("distance", DISTANCES)
def test_nothing_is_said_of_an_empty_window(distance):
    assert distance([10, 20], [0, 0]) == distance([0, 0], [1, 0]) == 0.0
    assert wasserstein_of_counts([1, 2], [0, 0], [0.0], -1.0, 1.0) == 0.0


def test_a_feature_without_edges_has_not_moved():
    assert wasserstein_of_counts([5], [9], [], 3.0, 3.0) == 0.0
    assert kolmogorov_smirnov_of_counts([5], [9]) == 0.0
