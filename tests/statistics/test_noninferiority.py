"""Not worse by more than a margin: the tests hold their level, and say how much it may be."""

import math

import numpy as np
import pytest

from falaj.statistics.noninferiority import FEWEST, Sums, chance_of_no_more, likely_shown, of_differences, of_means, of_shares


@pytest.mark.parametrize(("rows", "lost", "won", "margin"), [(2000, 0.02, 0.01, 0.01), (900, 0.006, 0.001, 0.005)])
def test_one_that_is_worse_by_the_whole_margin_passes_at_most_one_time_in_twenty(rows, lost, won, margin):
    random = np.random.default_rng(8)
    seen = random.multinomial(rows, [lost, won, 1 - lost - won], 2000)
    passed = [of_shares(rows, int(a), int(b), margin=margin, confidence=0.95).chance <= 0.05 for a, b, _ in seen]
    assert np.mean(passed) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_one_that_is_as_good_passes_nearly_always_where_there_are_rows_enough():
    random = np.random.default_rng(9)
    seen = random.multinomial(20_000, [0.005, 0.005, 0.99], 500)
    passed = [of_shares(20_000, int(a), int(b), margin=0.005, confidence=0.95).chance <= 0.05 for a, b, _ in seen]
    assert np.mean(passed) > 0.99


def test_where_nothing_differs_the_rows_alone_bound_what_may_have_been_missed():
    found = of_shares(898, 0, 0, margin=0.005, confidence=0.95)
    assert found.drop == 0
    assert found.high == pytest.approx(-math.log(0.05) / 898, rel=1e-6)  # more would have shown in 19 of 20 such samples
    assert of_shares(300, 0, 0, margin=0.005, confidence=0.95).chance > 0.05


@pytest.mark.parametrize(("rows", "lost", "won"), [(74, 0.02, 0.0), (600, 0.03, 0.01), (5000, 0.06, 0.04)])
def test_one_that_is_worse_by_no_more_than_the_margin_is_seldom_shown_to_be(rows, lost, won):
    random = np.random.default_rng(12)
    seen = random.multinomial(rows, [lost, won, 1 - lost - won], 2000)
    shown = [chance_of_no_more(rows, int(a), int(b), margin=0.02) <= 0.05 for a, b, _ in seen]
    assert np.mean(shown) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_one_that_gave_up_what_the_other_knew_is_shown_to_be_worse_by_a_few_rows():
    assert chance_of_no_more(12, 6, 0, margin=0.02) < 0.01
    assert chance_of_no_more(74, 66, 0, margin=0.02) < 1e-12
    assert chance_of_no_more(0, 0, 0, margin=0.02) == 1.0


def test_the_bound_is_where_the_test_turns():
    found = of_shares(3000, 31, 20, margin=0.01, confidence=0.95)
    at = of_shares(3000, 31, 20, margin=found.high, confidence=0.95)
    assert at.chance == pytest.approx(0.05, abs=1e-6)
    assert found.drop == pytest.approx(11 / 3000)


def test_no_rows_show_nothing():
    assert of_shares(0, 0, 0, margin=0.1, confidence=0.95).chance == 1.0
    nothing = Sums(rows=0, first=0, second=0, first_squares=0, second_squares=0, products=0)
    assert of_means(nothing, margin=0.1, confidence=0.95).chance == 1.0


def sums(first, second):
    return Sums(
        rows=len(first),
        first=first.sum(),
        second=second.sum(),
        first_squares=(first**2).sum(),
        second_squares=(second**2).sum(),
        products=(first * second).sum(),
    )


def test_mean_errors_hold_their_level_too():
    random = np.random.default_rng(10)
    passed = []
    for _ in range(2000):
        first = random.exponential(size=500)
        second = first * 1.05 * random.lognormal(-0.02, 0.2, size=500)  # on average five per cent larger
        passed.append(of_means(sums(first, second), margin=0.05, confidence=0.95).chance <= 0.05)
    assert np.mean(passed) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_a_variant_that_makes_no_other_errors_is_not_worse():
    first = np.random.default_rng(11).exponential(size=100)
    found = of_means(sums(first, first), margin=0.01, confidence=0.95)
    assert found.drop == pytest.approx(0)
    assert found.chance < 0.05
    assert of_means(sums(first, first * 2), margin=0.01, confidence=0.95).chance > 0.99


def test_mean_differences_hold_their_level_too():
    random = np.random.default_rng(12)
    passed = []
    for _ in range(2000):
        apart = random.laplace(0.02, 0.1, size=500)
        found = of_differences(500, float(apart.sum()), float((apart**2).sum()), margin=0.02, confidence=0.95)
        passed.append(found.chance <= 0.05)
    assert 0.02 < np.mean(passed) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_the_bound_of_a_mean_difference_is_where_its_test_turns():
    found = of_differences(400, 2.0, 1.5, margin=0.01, confidence=0.95)
    assert found.drop == pytest.approx(0.005)
    assert of_differences(400, 2.0, 1.5, margin=found.high, confidence=0.95).chance == pytest.approx(0.05, abs=1e-6)
    assert of_differences(400, 0.0, 0.0, margin=0.01, confidence=0.95).chance == 0.0
    assert of_differences(1, 0.0, 0.0, margin=0.01, confidence=0.95).chance == 1.0


def test_a_few_rows_that_happen_to_be_alike_show_nothing():
    """Student's test of (1.0, 1.1) against the same has a t of -21."""
    first = np.random.default_rng(13).uniform(1.0, 1.1, size=FEWEST)
    assert of_means(sums(first[:2], first[:2]), margin=0.02, confidence=0.95).chance == 1.0
    assert of_means(sums(first[:-1], first[:-1]), margin=0.02, confidence=0.95).chance == 1.0
    assert of_means(sums(first, first), margin=0.02, confidence=0.95).chance < 0.05
    few = of_differences(FEWEST - 1, 0.29, 0.0029, margin=0.02, confidence=0.95)
    assert (few.drop, few.chance) == (pytest.approx(0.01), 1.0)


def test_of_no_error_there_is_no_share():
    nothing, little = np.zeros(100), np.full(100, 1e-9)
    same = of_means(sums(nothing, nothing), margin=0.01, confidence=0.95)
    assert (same.drop, same.high, same.chance) == (0.0, 0.0, 0.0)
    worse = of_means(sums(nothing, little), margin=0.01, confidence=0.95)
    assert (worse.drop, worse.high, worse.chance) == (math.inf, math.inf, 1.0)


@pytest.mark.parametrize(("drop", "changes", "seen"), [(0.0, 0.0, 1.0), (0.0, 0.0002, 0.9), (0.003, 0.01, 0.0)])
def test_what_changes_few_answers_is_likely_to_be_shown_on_few_rows(drop, changes, seen):
    found = likely_shown(898, drop, changes, margin=0.005, confidence=0.98875)
    assert found == pytest.approx(seen, abs=0.1)
    assert likely_shown(0, drop, changes, margin=0.005, confidence=0.95) == 0.0


def test_on_many_rows_many_changes_are_likely_to_be_shown_to_cost_nothing():
    assert likely_shown(87_000, 0.0, 0.02, margin=0.005, confidence=0.98875) > 0.95
    assert likely_shown(87_000, 0.005, 0.02, margin=0.005, confidence=0.98875) < 0.1
