import math

import numpy as np
import pytest

from falaj.statistics.sequences import Sequence, Sums

LOOKED_FOR = math.log(1 / 0.05)


def sums(numbers: np.ndarray) -> Sums:
    return Sums(rows=len(numbers), total=float(numbers.sum()), squares=float((numbers**2).sum()))


def followed(numbers: np.ndarray, width: float, guess: float, rows: int) -> list[Sequence]:
    sequence, found = Sequence(width=width, guess=guess), []
    for start in range(0, len(numbers), rows):
        sequence = sequence.grown(sums(numbers[start : start + rows]))
        found.append(sequence)
    return found


@pytest.mark.parametrize(
    ("draw", "mean", "width"),
    [
        (lambda random: random.random(1500), 0.5, 1.0),
        (lambda random: (random.random(1500) < 0.03).astype(float), 0.03, 1.0),
        (lambda random: random.exponential(2.0, 1500), 2.0, 0.0),
    ],
    ids=["uniform", "rare", "without bounds"],
)
def test_intervals_hold_at_all_looks_at_once(draw, mean, width):
    random = np.random.default_rng(20_261_118)
    missed = 0
    for _ in range(200):
        looks = [one.interval() for one in followed(draw(random), width, 0.5, 25)]
        missed += any(not look.low <= mean <= look.high for look in looks)
    assert missed <= 0.05 * 200


def test_intervals_become_narrow():
    random = np.random.default_rng(1)
    last = followed(random.random(40_000), 1.0, 0.5, 100)[-1].interval()
    by_the_book = 2 * 1.96 * math.sqrt(1 / 12 / 40_000)
    assert by_the_book < last.high - last.low < 2.5 * by_the_book


def test_evidence_and_interval_say_the_same():
    random = np.random.default_rng(2)
    for one in followed(random.random(2000) * 0.9, 1.0, 0.5, 50):
        look = one.interval()
        assert (one.evidence(0.5) > LOOKED_FOR) == (not look.low <= 0.5 <= look.high)


def test_nothing_is_said_of_nothing():
    empty = Sequence(width=1.0, guess=0.5)
    assert empty.evidence() == 0.0
    assert empty.interval().high == math.inf
    assert empty.grown(Sums()) == empty


def test_constant_numbers_have_a_mean():
    last = followed(np.full(1000, 0.25), 1.0, 0.5, 100)[-1].interval()
    assert last.low <= 0.25 <= last.high
    assert last.high - last.low < 0.1
