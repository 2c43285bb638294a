"""Two arms, looked at all the time. Seeds were drawn after every threshold had been set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.statistics.arms import Arm, arm_of
from falaj.statistics.contests import FEWEST, Contest, Side, of_bounded, of_means, ratio_evidence
from falaj.statistics.sequences import Walk
from tests.statistics.two_arms import TwoArms, arm

OUTCOMES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def farthest(most: float, largest: float, part: float) -> tuple[np.ndarray, np.ndarray]:
    """How far a sum may be from nought at each spread, by the product's own bound."""
    spreads = np.concatenate([[0.0], np.geomspace(0.01, most, 300)])
    walks = [Walk(spread=float(spread), largest=largest) for spread in spreads]
    return spreads, np.array([walk.farthest(math.log(2 / (part * 0.05))) for walk in walks])


def decided(random: np.random.Generator, incumbent: float, candidate: float, *, experiments: int, rows: int) -> np.ndarray:
    """After how many rows each of many experiments is decided, looked at after every single row; -1 for never. The same sums as
    a `Contest` takes, for all experiments at once; `test_all_at_once_is_the_same_as_one_by_one` holds them together."""
    found = [
        _decided(random, incumbent, candidate, min(100, experiments - start), rows) for start in range(0, experiments, 100)
    ]
    return np.concatenate(found)


def _decided(random: np.random.Generator, incumbent: float, candidate: float, experiments: int, rows: int) -> np.ndarray:
    drawn = random.random((experiments, rows)) < 0.5
    came = (random.random((experiments, rows)) < np.where(drawn, candidate, incumbent)).astype(float)
    counts, means, spreads = [], [], []
    for mine in (drawn, ~drawn):
        count = np.cumsum(mine, axis=1)
        mean = np.cumsum(came * mine, axis=1) / np.maximum(1, count)
        expected = np.concatenate([np.full((experiments, 1), 0.5), np.where(count > 0, mean, 0.5)[:, :-1]], axis=1)
        counts.append(count)
        means.append(mean)
        spreads.append(np.cumsum((came - expected) ** 2 * mine, axis=1))
    # Between two spreads of the table bounds are a little too close: false verdicts are counted rather too often.
    differences = np.interp(4 * (spreads[0] + spreads[1]), *farthest(4 * rows, 2.0, 0.9))
    levels = np.interp(spreads[0] + spreads[1], *farthest(rows, 1.0, 0.1))
    every = np.arange(1, rows + 1)
    off = 2 * np.abs(counts[0] - counts[1]) / every * levels
    per_difference = 4 * counts[0] * counts[1] / every
    over = np.abs(means[0] - means[1]) * per_difference > differences + off
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, -1)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_of_600_experiments_without_a_difference_hardly_any_is_decided_however_often_somebody_looks(share):
    found = decided(np.random.default_rng(611_953), share, share, experiments=600, rows=3000)
    assert (found > 0).mean() <= 0.05


def test_a_difference_that_is_there_is_found():
    found = decided(np.random.default_rng(42_417), 0.10, 0.15, experiments=200, rows=8000)
    assert (found > 0).mean() >= 0.95
    assert np.median(found[found > 0]) < 3000  # looked at once, 1,366 rows show it four times in five


def test_all_at_once_is_the_same_as_one_by_one():
    rows, drawing = 600, np.random.default_rng(3)
    drawn = drawing.random((1, rows))[0] < 0.5
    came = (drawing.random((1, rows))[0] < np.where(drawn, 0.6, 0.3)).astype(float)
    going, first = TwoArms(share=0.5, low=0.0, high=1.0), -1
    for place in range(rows):
        going = going.drawn(drawn[place : place + 1], came[place : place + 1])
        if going.contest.excludes(0.0) and first < 0:
            first = place + 1
    (again,) = decided(np.random.default_rng(3), 0.3, 0.6, experiments=1, rows=rows)
    assert first > 0
    assert abs(first - again) <= 5  # the table of bounds is a little too close


# In which order rows come


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("bounds", [{"low": 0.0, "high": 1.0}, {}], ids=["within bounds", "without bounds"])
def test_arms_that_come_one_after_the_other_are_not_told_apart(share, bounds):
    random, false = np.random.default_rng(1_229_320_530), 0
    for _ in range(100):
        going = TwoArms(share=share, **bounds)
        for _ in range(15):
            for drawn in (True, False):
                rows = round(200 * (share if drawn else 1 - share))
                going = going.drawn(np.full(rows, drawn), (random.random(rows) < 0.1).astype(float))
        false += going.contest.excludes(0.0)
    assert false <= 5


@settings(max_examples=60)
@given(OUTCOMES, OUTCOMES, st.randoms(use_true_random=False), st.sampled_from([0.5, 0.1]))
def test_without_bounds_no_order_of_rows_changes_anything(some, others, shuffling, share):
    some, others = [*some, 0.0, 1.0] * 100, [*others, 0.0, 1.0] * 100
    before = of_means(share, arm_of(some), arm_of(others)).interval()
    shuffling.shuffle(some)
    shuffling.shuffle(others)
    parts = [Arm(), Arm()]
    for start in range(0, 4000, 70):
        parts = [part + arm_of(all_of[start : start + 70]) for part, all_of in zip(parts, (some, others), strict=True)]
    after = of_means(share, *parts).interval()
    assert (before.low, before.high) == pytest.approx((after.low, after.high), abs=1e-9)


def test_nothing_is_said_before_both_arms_have_rows_enough():
    lone = TwoArms(share=0.5, low=0.0, high=1.0).grown(arm(np.ones(5000)), Arm())
    assert lone.contest.interval().high == math.inf
    assert not lone.contest.excludes(0.0)
    few = TwoArms(share=0.5).grown(arm(np.arange(5000.0)), arm(np.arange(FEWEST - 1.0)))
    assert few.contest.interval().low == -math.inf
    assert few.grown(Arm(), arm(np.ones(1))).contest.interval().low > -math.inf


def test_a_decision_is_what_the_interval_says():
    for effect in np.linspace(-0.2, 0.2, 41):
        sides = [Side(rows=rows, mean=mean, spread=rows / 5) for rows, mean in ((480, 0.5 + effect), (520, 0.5))]
        contest = Contest(share=0.5, candidate=sides[0], incumbent=sides[1], width=1.0)
        found = contest.interval()
        for difference in (-0.1, 0.0, 0.1):
            assert contest.excludes(difference) == (not found.low <= difference <= found.high)


# Outcomes that are skewed, and small shares


def spent(random: np.random.Generator, rows: int) -> np.ndarray:
    """Of which two in a hundred are anything at all, and few of those most."""
    return (random.random(rows) < 0.02) * random.lognormal(0, 1.5, rows)


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_skewed_outcomes_of_a_small_share_are_not_told_apart(share):
    random, false = np.random.default_rng(2_043_922_984), 0
    for _ in range(60):
        going, found = TwoArms(share=share), False
        for _ in range(200):
            going = going.drawn(random.random(20) < share, spent(random, 20))
            found = found or going.contest.excludes(0.0)
        false += found
    assert false <= 3


def test_an_arm_that_has_not_seen_yet_what_happens_rarely_is_not_taken_to_be_sure():
    """A candidate of which nothing came so far, where something comes of one row in fifty."""
    incumbent = np.zeros(3000)
    incumbent[::50] = 10.0
    contest = of_means(0.05, arm(np.zeros(150)), arm(incumbent))
    assert not contest.excludes(0.0)


# What was known before


def test_what_was_known_before_makes_the_interval_narrower():
    random = np.random.default_rng(4)
    with_it = without = TwoArms(share=0.3)
    for _ in range(50):
        known, drawn = random.normal(size=100), random.random(100) < 0.3
        came = 10 + 3 * known + random.normal(size=100) + 0.5 * drawn
        with_it, without = with_it.drawn(drawn, came, known), without.drawn(drawn, came)
    narrow, wide = with_it.contest.interval(), without.contest.interval()
    assert narrow.low <= 0.5 <= narrow.high
    assert narrow.low > 0
    assert narrow.high - narrow.low < 0.6 * (wide.high - wide.low)


def test_a_ratio_is_held_against_the_other_whatever_they_are_per():
    random = np.random.default_rng(6)
    arms = []
    for more in (1.5, 1.0):
        per = (random.exponential(size=4000) + 0.5) * more
        arms.append(arm_of((per * random.random(4000) * 2).tolist(), per.tolist()))
    found = of_means(0.5, *arms).interval()
    assert found.low < 0 < found.high
    assert found.high - found.low < 0.3


def test_windows_of_any_size_lead_to_about_the_same_interval():
    random = np.random.default_rng(5)
    drawn = random.random(6000) < 0.5
    came = (random.random(6000) < np.where(drawn, 0.25, 0.2)).astype(float)
    looks = []
    for rows in (10, 100, 1000):
        going = TwoArms(share=0.5, low=0.0, high=1.0)
        for start in range(0, 6000, rows):
            going = going.drawn(drawn[start : start + rows], came[start : start + rows])
        looks.append(going.contest.interval())
    assert max(look.low for look in looks) - min(look.low for look in looks) < 0.01
    assert of_bounded(0.5, going.candidate, going.incumbent, 1.0).interval() == looks[-1]


# Whether arms have what they should


def test_a_split_that_is_not_what_it_should_be_is_noticed():
    assert ratio_evidence([5300, 4700], [0.5, 0.5]) > math.log(1000)
    assert ratio_evidence([1000, 9000], [0.1, 0.9]) < 0


def test_a_fair_split_is_hardly_ever_doubted_however_often_somebody_looks():
    random = np.random.default_rng(88_127)
    doubted = 0
    for _ in range(300):
        counts = np.cumsum(random.multinomial(50, [0.2, 0.3, 0.5], size=60), axis=0)
        doubted += any(ratio_evidence(one, [0.2, 0.3, 0.5]) > math.log(100) for one in counts)
    assert doubted <= 0.01 * 300
