"""Two arms of an experiment held against each other: how much more the one brings than the other, valid at every look.

Every row is a guess at the difference by itself: what came, less what was expected of any row, for the one arm and against the
other, each by how rarely it is drawn. Their mean is the difference, whatever was expected; `sequences` bounds it.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from falaj.base.values import value
from falaj.statistics.intervals import Interval
from falaj.statistics.sequences import Sequence, Sums


@value
class Arm:
    """What came of the rows of one arm, and of a number that was known of each before (0 of all where there is none): their
    sums, and the sum of the products."""

    came: Sums = Sums()
    known: Sums = Sums()
    products: float = 0.0

    def __add__(self, other: "Arm") -> "Arm":
        return Arm(came=self.came + other.came, known=self.known + other.known, products=self.products + other.products)


@value
class Contest:
    """`share` is how many of the rows of the two arms the candidate is drawn for. `low` and `high` bound what can come, where
    that is known. Without bounds, intervals are nearly right once there are some hundred rows, and what was known of a row
    before makes them narrower."""

    share: float
    low: float = -math.inf
    high: float = math.inf
    differences: Sequence = Sequence(width=0.0, guess=0.0)
    seen: Arm = Arm()

    def grown(self, candidate: Arm, incumbent: Arm) -> "Contest":
        """With one more window of each."""
        if not self._width() and not self.seen.came.rows:  # without bounds, the first window says what is to be expected at all
            return replace(self, seen=candidate + incumbent)
        expected, slope, usual = self._expected()
        total = squares = 0.0
        for arm, weight in ((candidate, 1 / self.share), (incumbent, -1 / (1 - self.share))):
            left = _residuals(arm, expected, slope, usual)
            total, squares = total + weight * left.total, squares + weight * weight * left.squares
        window = Sums(rows=candidate.came.rows + incumbent.came.rows, total=total, squares=squares)
        before = self.differences if self.differences.seen.rows else Sequence(width=self._width(), guess=0.0)
        return replace(self, differences=before.grown(window), seen=self.seen + candidate + incumbent)

    def interval(self, confidence: float = 0.95) -> Interval:
        """How much more the candidate brings, per row."""
        return self.differences.interval(confidence)

    def evidence(self) -> float:
        """The logarithm of how strongly the rows speak against there being no difference."""
        return self.differences.evidence()

    def _width(self) -> float:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return 0.0
        return (self.high - self.low) * (1 / self.share + 1 / (1 - self.share))

    def _expected(self) -> tuple[float, float, float]:
        """Of any row, from what was seen before: the mean, the slope by what is known, and the mean of that."""
        came, known = self.seen.came, self.seen.known
        if not came.rows:
            return (self.low + self.high) / 2 if self._width() else 0.0, 0.0, 0.0
        mean, usual = came.total / came.rows, known.total / came.rows
        spread = known.around(usual)
        bounded = bool(self._width())
        slope = 0.0 if bounded or spread <= 0 else (self.seen.products - came.rows * mean * usual) / spread
        return mean, slope, usual


def _residuals(arm: Arm, expected: float, slope: float, usual: float) -> Sums:
    """Of what came less `expected + slope * (known - usual)`."""
    came, known, base = arm.came, arm.known, expected - slope * usual
    total = came.total - slope * known.total - came.rows * base
    squares = (
        came.squares
        + slope * slope * known.squares
        + came.rows * base * base
        - 2 * slope * arm.products
        - 2 * base * came.total
        + 2 * slope * base * known.total
    )
    return Sums(rows=came.rows, total=total, squares=max(0.0, squares))


def ratio_evidence(counts: ArrayLike, shares: ArrayLike) -> float:
    """The logarithm of how strongly counts by arm speak against these shares, valid at every look: where a split is not what it
    should be, rows are lost on the way, and no verdict means anything."""
    seen, wanted = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    wanted = wanted / wanted.sum()
    prior = 100.0 * wanted  # bets that the shares are off by a few hundredths
    found = math.lgamma(prior.sum()) - math.lgamma(prior.sum() + seen.sum())
    found += sum(math.lgamma(a + n) - math.lgamma(a) for a, n in zip(prior, seen, strict=True))
    return float(found - (seen * np.log(wanted)).sum())
