"""Rows told apart, all features together. Seeds were drawn after every threshold had been set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from falaj.statistics.two_samples import told_apart


def rows(random, count, together=0.0):
    """Ten features; the first two go together, whatever each of them does is the same."""
    found = random.normal(size=(count, 10))
    found[:, 1] = together * found[:, 0] + math.sqrt(1 - together**2) * found[:, 1]
    return found


def test_chances_of_rows_from_one_source_promise_no_less_than_they_keep():
    random = np.random.default_rng(75_025)
    chances = []
    for seed in range(300):
        kinds = random.integers(0, 2, (400, 2))
        both = np.concatenate([rows(random, 400, 0.4), kinds, random.exponential(size=(400, 1))], axis=1)
        both[random.random(both.shape) < 0.05] = math.nan
        chances.append(told_apart(both[:250], both[250:], seed=seed).chance)
    for chance in (0.05, 0.2, 0.5):
        assert np.mean(np.array(chances) < chance) <= chance


@pytest.mark.parametrize("usual", [100, 1000])
def test_one_reference_that_is_kept_is_told_from_its_own_source_no_more_often_than_promised(usual):
    """Many references, each held against many windows: the worst of them, too, for a monitor has one alone."""
    random, windows = np.random.default_rng(3_442_501_202 + usual), 40
    rates = []
    for _ in range(16):
        kept = rows(random, usual)
        rates.append(np.mean([told_apart(kept, rows(random, 300)).chance < 0.05 for _ in range(windows)]))
    assert max(rates) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / windows)
    assert np.mean(rates) <= 0.05


def test_what_a_reference_may_be_off_by_hides_no_change_that_is_large():
    random = np.random.default_rng(3_593_915_994)

    def found(usual, before, after):
        told = [told_apart(rows(random, usual, before), rows(random, 300, after)) for _ in range(20)]
        return np.mean([one.chance < 1 / 2000 for one in told])

    assert found(1000, 0.8, 0) >= 0.8
    assert found(100, 0.8, -0.8) >= 0.8


def test_features_that_go_together_no_more_are_found_and_named():
    random = np.random.default_rng(121_393)
    found = [told_apart(rows(random, 1000, 0.6), rows(random, 1000), seed=seed) for seed in range(20)]
    assert np.median([one.chance for one in found]) < 1e-4
    assert all(set(np.argsort(one.importance)[-2:]) == {0, 1} for one in found)
    assert all(stats.ks_2samp(rows(random, 1000, 0.6)[:, 1], rows(random, 1000)[:, 1]).pvalue > 1e-4 for _ in range(3))


@pytest.mark.parametrize(
    "change",
    [
        lambda random, found: found + np.eye(10)[3],
        lambda random, found: found * np.where(np.arange(10) == 3, 2.0, 1.0),
        lambda random, found: np.where((np.arange(10) == 3) & (random.random((len(found), 1)) < 0.2), math.nan, found),
    ],
    ids=["a shift", "a wider spread", "values that go missing"],
)
def test_what_changed_is_named(change):
    random = np.random.default_rng(28_657)
    found = told_apart(rows(random, 800), change(random, rows(random, 800)))
    assert found.chance < 1e-4
    assert int(np.argmax(found.importance)) == 3


def test_a_unit_or_an_outlier_changes_nothing_of_note():
    random = np.random.default_rng(17_711)
    first, second = rows(random, 500), rows(random, 500) + 0.3
    plain = told_apart(first, second)
    assert told_apart(first * 1000 + 5, second * 1000 + 5).area == pytest.approx(plain.area, abs=1e-6)
    first[0], second[0] = math.inf, -1e300
    assert told_apart(first, second).area == pytest.approx(plain.area, abs=0.03)


def test_few_rows_say_nothing():
    nothing = told_apart(np.zeros((5, 3)), np.ones((500, 3)))
    assert (nothing.area, nothing.chance, nothing.importance) == (0.5, 1.0, (0.0, 0.0, 0.0))
    assert told_apart(np.zeros((100, 2)), np.zeros((100, 2))).chance >= 0.5


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.float64, (60, 3), elements=st.floats(width=64)))
def test_whatever_the_numbers_are_there_is_a_chance(found):
    told = told_apart(found[:30], found[30:])
    assert 0 <= told.chance <= 1
    assert 0 <= told.area <= 1
