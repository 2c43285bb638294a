import math

import numpy as np
import pytest

from falaj.statistics.sequences import Sums, Walk

WANTED = math.log(2 / 0.05)  # on either side


def sums(numbers: np.ndarray) -> Sums:
    return Sums(rows=len(numbers), total=float(numbers.sum()), squares=float((numbers**2).sum()))


def followed(numbers: np.ndarray, mean: float, largest: float, rows: int) -> list[tuple[float, Walk]]:
    """How far the sum is from its mean after each window, and the walk by then."""
    seen, spread, found = Sums(), 0.0, []
    for start in range(0, len(numbers), rows):
        window = sums(numbers[start : start + rows])
        spread += window.around(seen.total / seen.rows if seen.rows else 0.5)
        seen = seen + window
        walk = Walk(spread=spread, largest=largest, usual=spread / seen.rows)
        found.append((abs(seen.total - seen.rows * mean), walk))
    return found


@pytest.mark.parametrize(
    ("draw", "mean", "largest"),
    [
        (lambda random: random.random(1500), 0.5, 1.0),
        (lambda random: (random.random(1500) < 0.03).astype(float), 0.03, 1.0),
        (lambda random: random.exponential(2.0, 1500), 2.0, 0.0),
    ],
    ids=["uniform", "rare", "without bounds"],
)
def test_bounds_hold_at_all_looks_at_once(draw, mean, largest):
    random = np.random.default_rng(20_261_118)
    missed = 0
    for _ in range(200):
        looks = followed(draw(random), mean, largest, 25)
        missed += any(walk.evidence(distance) > WANTED for distance, walk in looks[0 if largest else 4 :])
    assert missed <= 0.05 * 200


def test_bounds_become_narrow():
    random = np.random.default_rng(1)
    _, last = followed(random.random(40_000), 0.5, 1.0, 100)[-1]
    by_the_book = 1.96 * math.sqrt(40_000 / 12)
    assert by_the_book < last.farthest(WANTED) < 2.5 * by_the_book


@pytest.mark.parametrize("walk", [Walk(spread=40.0, largest=1.0), Walk(spread=0.0, largest=3.0), Walk(spread=40.0, usual=0.1)])
def test_evidence_reaches_what_is_wanted_at_the_farthest(walk):
    far = walk.farthest(WANTED)
    assert walk.evidence(0.999 * far) < WANTED <= walk.evidence(1.001 * far)
    assert walk.evidence(-far) == walk.evidence(0.0) <= 0
