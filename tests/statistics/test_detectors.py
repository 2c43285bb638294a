"""Counts watched for ever. Seeds were drawn after every threshold had been set."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from falaj.statistics.detectors import (
    Alternatives,
    alternatives,
    fresh,
    reference_shares,
    threshold,
    watched,
)

BINS = 20
FEATURES, BUDGET = 100, 1000.0
ENOUGH = threshold(FEATURES, BUDGET)


class Feature:
    """Normal numbers by the quantiles of a reference of 20,000, and a bin for what is missing."""

    def __init__(self, random: np.random.Generator) -> None:
        reference = random.standard_normal(20_000)
        self.edges = np.quantile(reference, np.linspace(0, 1, BINS + 1)[1:-1])
        self.shares = reference_shares(self.counts(reference))
        self.against: Alternatives = alternatives(self.shares, ordered=BINS)

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        known = numbers[~np.isnan(numbers)]
        return np.append(np.bincount(np.searchsorted(self.edges, known), minlength=BINS), len(numbers) - len(known))


def first_alarm(feature: Feature, windows: list[np.ndarray]) -> tuple[int, int]:
    """The window in which it was given and the one in which the change is said to have begun; -1 for none."""
    detector = fresh(feature.against)
    for number, window in enumerate(windows):
        found = watched(detector, feature.counts(window), feature.against)
        detector = found.detector
        if found.evidence > ENOUGH:
            return number, found.since
    return -1, -1


def test_a_hundred_features_over_200_windows_keep_to_the_budget_of_false_alarms():
    """200 windows of a budget of one in 1,000: at most one in five such series may have any."""
    random = np.random.default_rng(2_194_938_438)
    alarms = [first_alarm(Feature(random), list(random.standard_normal((200, 100))))[0] for _ in range(FEATURES)]
    assert sum(alarm >= 0 for alarm in alarms) <= 1


@pytest.mark.parametrize(("shift", "rows"), [(0.2, 1500), (0.5, 400), (-0.2, 1500)])
def test_a_shift_is_found_within_so_many_rows_and_dated(shift, rows):
    random = np.random.default_rng(913_370)
    delays, dated = [], []
    for _ in range(20):
        feature = Feature(random)
        windows = [random.standard_normal(50) + (shift if number >= 40 else 0.0) for number in range(140)]
        alarm, since = first_alarm(feature, windows)
        assert alarm >= 40
        delays.append((alarm - 39) * 50)
        dated.append(since)
    assert np.median(delays) <= rows
    assert abs(np.median(dated) - 40) <= 5


@pytest.mark.parametrize(
    "change",
    [
        lambda random: random.standard_normal(100) * 1.6,
        lambda random: np.where(random.random(100) < 0.15, np.nan, random.standard_normal(100)),
        lambda random: np.where(random.random(100) < 0.2, 0.0, random.standard_normal(100)),
    ],
    ids=["a wider spread", "values that go missing", "a value that comes too often"],
)
def test_other_changes_are_found_too(change):
    random = np.random.default_rng(31_007)
    feature = Feature(random)
    alarm, _ = first_alarm(feature, [*random.standard_normal((20, 100)), *(change(random) for _ in range(30))])
    assert 20 <= alarm < 40


def test_kinds_without_an_order_are_watched():
    random = np.random.default_rng(6)
    shares = reference_shares([5000, 3000, 1500, 500, 0])
    against = alternatives(shares, ordered=0)
    quiet = detector = fresh(against)
    for _ in range(30):
        quiet = watched(quiet, random.multinomial(100, shares), against).detector
        found = watched(detector, random.multinomial(100, [0.4, 0.3, 0.15, 0.05, 0.1]), against)
        detector = found.detector
    assert found.evidence > ENOUGH
    assert watched(quiet, random.multinomial(100, shares), against).evidence < ENOUGH


@pytest.mark.parametrize(("before", "after"), [(0.3, 0.45), (0.5, 0.65), (0.5, 0.35), (0.9, 0.97)])
def test_a_bin_that_is_large_already_is_seen_to_grow_and_to_shrink(before, after):
    random = np.random.default_rng(10)
    against = alternatives(reference_shares([10_000 * before, 10_000 * (1 - before)]), ordered=0, rows=10_000)
    detector = fresh(against)
    for counts in random.multinomial(100, [after, 1 - after], size=20):
        found = watched(detector, counts, against)
        detector = found.detector
    assert found.evidence > ENOUGH


def test_a_feature_that_never_changes_says_nothing():
    against = alternatives(reference_shares([1000]), ordered=1)
    detector = fresh(against)
    for _ in range(100):
        found = watched(detector, [500], against)
        detector = found.detector
    assert found.evidence < ENOUGH


def test_windows_merged_in_any_order_lead_to_the_same_evidence():
    random = np.random.default_rng(7)
    feature = Feature(random)
    parts = [feature.counts(random.standard_normal(40) + 0.3) for _ in range(8)]
    orders = [parts, parts[::-1], [parts[place] for place in random.permutation(8)]]
    found = {watched(fresh(feature.against), np.sum(order, axis=0), feature.against).evidence for order in orders}
    assert len(found) == 1


class SmallReference:
    """Normal numbers by the quantiles of so many of them; windows are drawn by the shares that the bins really have."""

    def __init__(self, random: np.random.Generator, rows: int, counted: float) -> None:
        self.random = random
        reference = random.standard_normal(rows)
        self.edges = np.quantile(reference, np.linspace(0, 1, BINS + 1)[1:-1])
        counts = np.append(np.bincount(np.searchsorted(self.edges, reference), minlength=BINS), 0)
        self.against = alternatives(reference_shares(counts), ordered=BINS, rows=counted)

    def law(self, shift: float = 0.0) -> np.ndarray:
        below = [NormalDist(shift).cdf(edge) for edge in self.edges]
        return np.append(np.diff([0.0, *below, 1.0]), 0.0)

    def alarm_after(self, rows: int, windows: int, shift: float = 0.0) -> float:
        """How many rows it takes; no end of them where there is none."""
        detector = fresh(self.against)
        for number, counts in enumerate(self.random.multinomial(rows, self.law(shift), size=windows)):
            found = watched(detector, counts, self.against)
            detector = found.detector
            if found.evidence > ENOUGH:
                return (number + 1) * rows
        return math.inf


@pytest.mark.parametrize("rows", [500, 2000, 20_000])
def test_what_is_only_the_noise_of_the_reference_gives_no_alarm(rows):
    random = np.random.default_rng(3_791_146_426 + rows)
    features = [SmallReference(random, rows, counted=rows) for _ in range(FEATURES)]
    assert all(math.isinf(feature.alarm_after(500, windows=200)) for feature in features)


def test_it_would_give_many_if_the_reference_were_thought_exact():
    random = np.random.default_rng(8)
    features = [SmallReference(random, 500, counted=math.inf) for _ in range(20)]
    assert sum(feature.alarm_after(500, windows=50) < math.inf for feature in features) > 10


@pytest.mark.parametrize(("rows", "shift", "within"), [(500, 0.5, 1000), (2000, 0.5, 300), (20_000, 0.2, 1600)])
def test_a_shift_is_found_against_a_small_reference_too(rows, shift, within):
    random = np.random.default_rng(24_601)
    delays = [SmallReference(random, rows, counted=rows).alarm_after(50, windows=400, shift=shift) for _ in range(30)]
    assert np.median(delays) <= within


def test_no_bet_gains_by_the_law_that_the_reference_was_drawn_from():
    random = np.random.default_rng(1_458_743_838)
    for rows in (300, 3000):
        for _ in range(100):
            feature = SmallReference(random, rows, counted=rows)
            assert (np.exp(feature.against.times) @ feature.law()).max() <= 1 + 1e-9


def test_what_the_reference_never_had_may_come_now_and_then():
    """Of 2,000 rows none was missing: one in 500 says nothing yet, one in 20 does."""
    shares = reference_shares([1000, 1000, 0])
    against = alternatives(shares, ordered=2, rows=2000)
    random = np.random.default_rng(9)
    found = []
    for missing in (0.002, 0.05):
        detector = fresh(against)
        for counts in random.multinomial(200, [(1 - missing) / 2, (1 - missing) / 2, missing], size=100):
            last = watched(detector, counts, against)
            detector = last.detector
        found.append(last.evidence)
    assert found[0] < ENOUGH < found[1]


def test_an_exact_reference_is_bet_against_as_it_is():
    shares = reference_shares([700, 200, 100])
    exact, large = alternatives(shares, ordered=3), alternatives(shares, ordered=3, rows=1e15)
    assert np.allclose(exact.times, large.times, atol=1e-5)
    assert np.allclose(np.exp(exact.times) @ shares, 1)
    assert np.array_equal(exact.times, alternatives(shares, ordered=3, rows=0).times)
