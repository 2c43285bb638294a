"""Two arms of an experiment held against each other: how much more the one brings than the other, valid at every look.

Rows count by how rarely their arm is drawn, for the one arm and against the other, each less the mean of its own arm; that sum
leads nowhere in whatever order rows come, of both arms in turn or of one after the other. Where arms have the rows that their
shares say, it is the difference less the true one. Where they have not, the level that both share does not fall out of it
quite; that is bounded by a sequence of its own, for which a tenth is kept of what may go wrong.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from falaj.base.values import value
from falaj.statistics.arms import Arm
from falaj.statistics.intervals import Interval
from falaj.statistics.sequences import Walk

FEWEST: Final = 100  # rows of either arm without bounds, before anything is said of their means
_FOR_LEVEL: Final = 0.1  # of what may go wrong


@value
class Side:
    """What is known of the mean of one arm: how many rows, what it was, and what they spread around what was expected."""

    rows: float
    mean: float
    spread: float


@value
class Contest:
    """`share` is how many of the rows of the two arms the candidate is drawn for, `width` is between the least and the largest
    that can come; 0 where nobody knows, and then intervals are nearly right once there are some hundred rows of either arm."""

    share: float
    candidate: Side
    incumbent: Side
    width: float = 0.0

    @property
    def at(self) -> float:
        """How much more the candidate brought, per row; not a number before there are rows of both."""
        return self.candidate.mean - self.incumbent.mean if self.candidate.rows and self.incumbent.rows else math.nan

    def interval(self, confidence: float = 0.95) -> Interval:
        """How much more it brings."""
        if not self._is_enough():
            return Interval(at=self.at, low=-math.inf, high=math.inf)
        far = self._differences().farthest(_wanted(confidence, 1 - _FOR_LEVEL)) + self._off(confidence)
        half = far / self._per_difference()
        return Interval(at=self.at, low=self.at - half, high=self.at + half)

    def excludes(self, difference: float, confidence: float = 0.95) -> bool:
        """Whether the interval lies on one side of it."""
        if not self._is_enough():
            return False
        far, wanted = abs(self.at - difference) * self._per_difference(), _wanted(confidence, 1 - _FOR_LEVEL)
        walk = self._differences()
        return walk.evidence(far) >= wanted and walk.evidence(far - self._off(confidence)) >= wanted

    # The parts

    def _is_enough(self) -> bool:
        rows = min(self.candidate.rows, self.incumbent.rows)
        numbers = (self.at, self.candidate.spread, self.incumbent.spread)
        return rows >= (1 if self.width else FEWEST) and all(map(math.isfinite, numbers))

    def _weights(self) -> tuple[float, float]:
        return 1 / self.share, 1 / (1 - self.share)

    def _spreads(self) -> tuple[float, float]:
        """Of each arm. Without bounds, one that has few rows may not have seen yet what happens rarely: the more unequal the
        shares, the more of what both spread together is counted at least."""
        arms = (self.candidate, self.incumbent)
        if self.width:
            return arms[0].spread, arms[1].spread
        together = (arms[0].spread + arms[1].spread) / (arms[0].rows + arms[1].rows)
        unequal = abs(1 - 2 * self.share) / (self.share**2 + (1 - self.share) ** 2)
        candidate, incumbent = (max(arm.spread, arm.rows * unequal * together) for arm in arms)
        return candidate, incumbent

    def _differences(self) -> Walk:
        one, other = self._weights()
        candidate, incumbent = self._spreads()
        usual = one * candidate / self.candidate.rows + other * incumbent / self.incumbent.rows
        return Walk(spread=one**2 * candidate + other**2 * incumbent, largest=self.width * max(one, other), usual=usual)

    def _off(self, confidence: float) -> float:
        """How far the sum can be off because arms do not have the rows that their shares say."""
        candidate, incumbent, (one, other) = self.candidate.rows, self.incumbent.rows, self._weights()
        rows, spread = candidate + incumbent, sum(self._spreads())
        lean = abs(candidate * one - incumbent * other) / rows
        if lean < 1e-12:
            return 0.0
        return lean * Walk(spread=spread, largest=self.width, usual=spread / rows).farthest(_wanted(confidence, _FOR_LEVEL))

    def _per_difference(self) -> float:
        """How much the sum is for each of the difference."""
        one, other = self.candidate.rows, self.incumbent.rows
        return one * other / (one + other) / (self.share * (1 - self.share))


def of_bounded(share: float, candidate: Arm, incumbent: Arm, width: float) -> Contest:
    """Of outcomes that lie within bounds."""
    sides = [Side(rows=arm.rows, mean=arm.mean, spread=arm.spread) for arm in (candidate, incumbent)]
    return Contest(share=share, candidate=sides[0], incumbent=sides[1], width=width)


def of_means(share: float, candidate: Arm, incumbent: Arm) -> Contest:
    """Of any numbers, or of ratios: each row counts by what it brings beyond its arm's ratio, for each of what the arm usually
    has of the denominator. What was known of rows before is taken away by one slope for both arms. All of it comes from sums
    over all rows, so no order of theirs can matter."""
    left = [arm.left() for arm in (candidate, incumbent)]
    explains = sum(one.known for one in left)
    slope = sum(one.products for one in left) / explains if explains > 0 else 0.0
    sides = [
        Side(
            rows=arm.rows,
            mean=arm.mean - slope * arm.usually_known,
            spread=one.squares - 2 * slope * one.products + slope * slope * one.known,
        )
        for arm, one in zip((candidate, incumbent), left, strict=True)
    ]
    sides = [Side(rows=one.rows, mean=one.mean, spread=max(0.0, one.spread)) for one in sides]
    return Contest(share=share, candidate=sides[0], incumbent=sides[1])


def ratio_evidence(counts: ArrayLike, shares: ArrayLike) -> float:
    """The logarithm of how strongly counts by arm speak against these shares, valid at every look: where a split is not what it
    should be, rows are lost on the way, and no verdict means anything."""
    seen, wanted = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    wanted = wanted / wanted.sum()
    prior = 100.0 * wanted  # bets that the shares are off by a few hundredths
    found = math.lgamma(prior.sum()) - math.lgamma(prior.sum() + seen.sum())
    found += sum(math.lgamma(a + n) - math.lgamma(a) for a, n in zip(prior, seen, strict=True))
    return float(found - (seen * np.log(wanted)).sum())


def _wanted(confidence: float, part: float) -> float:
    """The evidence on either side that it takes, for a part of what may go wrong."""
    return math.log(2 / (part * (1 - confidence)))
