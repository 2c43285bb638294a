"""Two arms, looked at all the time. Seeds were drawn after every threshold had been set."""

import math

import numpy as np
import pytest

from falaj.statistics.contests import Arm, Contest, ratio_evidence
from falaj.statistics.sequences import Sequence, Sums

SURE = math.log(1 / 0.05)


def sums(numbers: np.ndarray) -> Sums:
    return Sums(rows=len(numbers), total=float(numbers.sum()), squares=float((numbers**2).sum()))


def arm(came: np.ndarray, known: np.ndarray | None = None) -> Arm:
    known = np.zeros(len(came)) if known is None else known
    return Arm(came=sums(came), known=sums(known), products=float((came * known).sum()))


def boundary_by_spread(most: float) -> tuple[np.ndarray, np.ndarray]:
    """How far the sum may be from nought at each spread, by the product's own interval; for numbers of a width of 1."""
    spreads = np.concatenate([[0.0], np.geomspace(0.01, most, 300)])
    looks = [Sequence(width=1.0, guess=0.0, seen=Sums(rows=1), spread=float(spread)).interval() for spread in spreads]
    return spreads, np.array([(look.high - look.low) / 2 for look in looks])


def decided(random: np.random.Generator, incumbent: float, candidate: float, *, experiments: int, rows: int) -> np.ndarray:
    """After how many rows each of many experiments is decided, looked at after every single row; -1 for never. The same sums as
    a `Contest` keeps, for all experiments at once; `test_all_at_once_is_the_same_as_one_by_one` holds them together."""
    spreads, farthest = boundary_by_spread(most=rows)
    drawn = random.random((experiments, rows)) < 0.5
    came = (random.random((experiments, rows)) < np.where(drawn, candidate, incumbent)).astype(float)
    count = np.arange(1, rows + 1)
    means = np.cumsum(came, axis=1) / count
    expected = np.concatenate([np.full((experiments, 1), 0.5), means[:, :-1]], axis=1)
    guesses = (came - expected) * np.where(drawn, 2.0, -2.0)
    total = np.cumsum(guesses, axis=1)
    before = np.concatenate([np.zeros((experiments, 1)), total[:, :-1] / count[:-1]], axis=1)
    spread = np.cumsum((guesses - before) ** 2, axis=1) / 16
    # The bound of the next smaller spread in the table is a little too close: false verdicts are counted rather too often.
    bound = farthest[np.searchsorted(spreads, spread, side="right") - 1]
    over = np.abs(total) / 4 > bound
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, -1)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_of_2000_experiments_without_a_difference_hardly_any_is_decided_however_often_somebody_looks(share):
    found = decided(np.random.default_rng(611_953), share, share, experiments=2000, rows=4000)
    assert (found > 0).mean() <= 0.05


def test_a_difference_that_is_there_is_found():
    found = decided(np.random.default_rng(42_417), 0.10, 0.15, experiments=400, rows=8000)
    assert (found > 0).mean() >= 0.95
    assert np.median(found[found > 0]) < 3000  # looked at once, 1,366 rows show it four times in five


def test_all_at_once_is_the_same_as_one_by_one():
    random = np.random.default_rng(3)
    rows = 600
    drawn = random.random(rows) < 0.5
    came = (random.random(rows) < np.where(drawn, 0.6, 0.3)).astype(float)
    contest, nobody = Contest(share=0.5, low=0.0, high=1.0), Arm()
    first = -1
    for place in range(rows):
        one = arm(came[place : place + 1])
        contest = contest.grown(one, nobody) if drawn[place] else contest.grown(nobody, one)
        if contest.evidence() > SURE and first < 0:
            first = place + 1
    again = decided_of(drawn, came)
    assert first > 0
    assert abs(first - again) <= 5  # the table of bounds is a little too close


def decided_of(drawn: np.ndarray, came: np.ndarray) -> int:
    class Given(np.random.Generator):
        def __init__(self) -> None:
            self.parts = [np.where(drawn, 0.0, 1.0)[None], np.where(came > 0, -1.0, 2.0)[None]]

        def random(self, *_: object) -> np.ndarray:
            return self.parts.pop(0)

    return int(decided(Given(), 0.5, 0.5, experiments=1, rows=len(came))[0])


def test_what_was_known_before_makes_the_interval_narrower():
    random = np.random.default_rng(4)
    with_it, without = Contest(share=0.3), Contest(share=0.3)
    for _ in range(50):
        known, drawn = random.normal(size=100), random.random(100) < 0.3
        came = 10 + 3 * known + random.normal(size=100) + 0.5 * drawn
        with_it = with_it.grown(arm(came[drawn], known[drawn]), arm(came[~drawn], known[~drawn]))
        without = without.grown(arm(came[drawn]), arm(came[~drawn]))
    narrow, wide = with_it.interval(), without.interval()
    assert narrow.low <= 0.5 <= narrow.high
    assert narrow.low > 0
    assert narrow.high - narrow.low < 0.6 * (wide.high - wide.low)


def test_windows_of_any_size_lead_to_about_the_same_interval():
    random = np.random.default_rng(5)
    drawn = random.random(6000) < 0.5
    came = (random.random(6000) < np.where(drawn, 0.25, 0.2)).astype(float)
    looks = []
    for rows in (10, 100, 1000):
        contest = Contest(share=0.5, low=0.0, high=1.0)
        for start in range(0, 6000, rows):
            one, chosen = came[start : start + rows], drawn[start : start + rows]
            contest = contest.grown(arm(one[chosen]), arm(one[~chosen]))
        looks.append(contest.interval())
    assert max(look.at for look in looks) - min(look.at for look in looks) < 0.02


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
