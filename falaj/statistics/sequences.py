"""Confidence sequences: intervals of a mean that hold at every look at once, however often somebody looks.

For numbers that lie within known bounds they hold exactly, from the first row on; for others nearly, once there are some
hundred. All they need of the rows are sums, so that windows can be added up as they come.
"""

import math
from dataclasses import replace
from typing import Final

from falaj.base.values import value
from falaj.statistics.distributions import chi_square_tail
from falaj.statistics.intervals import Interval

_HALVINGS: Final = 60
_FEWEST: Final = 100  # rows without bounds, before anything is said of their mean
# Where intervals are narrowest, at the price of being a little wider elsewhere: at about 80 squares of the width, which are
# a few thousand rows of a test of two arms; without bounds, at a few thousand rows.
_TUNED: Final = 10.0
_TUNED_ROWS: Final = 300.0


@value
class Sums:
    """Of some numbers: how many, their sum, the sum of their squares."""

    rows: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(rows=self.rows + other.rows, total=self.total + other.total, squares=self.squares + other.squares)

    def around(self, middle: float) -> float:
        """The sum of the squared distances from it."""
        return max(0.0, self.squares - 2 * middle * self.total + self.rows * middle * middle)


@value
class Sequence:
    """What was seen of a mean so far. `width` is between the least and the largest number that can be, 0 where nobody knows;
    `spread` sums squared distances from what was expected before each window came, `guess` is what is expected next."""

    width: float
    guess: float
    seen: Sums = Sums()
    spread: float = 0.0

    def grown(self, window: Sums) -> "Sequence":
        """With one more window, whose rows nobody had looked at when it began."""
        if not window.rows:
            return self
        seen = self.seen + window
        return replace(self, guess=seen.total / seen.rows, seen=seen, spread=self.spread + window.around(self.guess))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Of the mean. It may grow as well as shrink: whoever keeps the narrowest of all so far is right as often."""
        rows = self.seen.rows
        if not rows or (not self.width and rows < _FEWEST):
            return Interval(at=self.guess if rows else math.nan, low=-math.inf, high=math.inf)
        half = self._farthest(math.log(2 / (1 - confidence))) / rows
        at = self.seen.total / rows
        return Interval(at=at, low=at - half, high=at + half)

    def evidence(self, mean: float = 0.0) -> float:
        """The logarithm of how strongly the rows speak against this mean: beyond log(20), one in twenty that look for ever
        would ever see it where that is the mean."""
        rows = self.seen.rows
        if not rows or (not self.width and rows < _FEWEST):
            return 0.0
        return self._grown_to(abs(self.seen.total - rows * mean)) - math.log(2)

    def _farthest(self, wanted: float) -> float:
        """How far the sum can be from its mean before it speaks against it as strongly as `wanted`."""
        low, high = 0.0, max(self.width, math.sqrt(self.spread), 1e-12)
        while self._grown_to(high) < wanted:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._grown_to(middle) < wanted else (low, middle)
        return high

    def _grown_to(self, distance: float) -> float:
        """The logarithm of a mixture of bets that the sum lies above: it grows from 1, on average not at all where the mean is
        right. Both mixtures are Howard, Ramdas, McAuliffe and Sekhon's."""
        if self.width:
            return _gamma_exponential(distance / self.width, self.spread / self.width**2)
        rows = self.seen.rows
        usual = max(self.spread / rows, 1e-300)
        return distance**2 / (2 * usual * (rows + _TUNED_ROWS)) - math.log1p(rows / _TUNED_ROWS) / 2


def _gamma_exponential(s: float, v: float) -> float:
    """For numbers that are at most 1 apart, their sum `s` above its mean and their squared distances `v`."""
    a, x = v + _TUNED, s + v + _TUNED
    first = _TUNED * math.log(_TUNED) - math.lgamma(_TUNED) - _log_lower(_TUNED, _TUNED)
    return first + math.lgamma(a) + _log_lower(a, x) - a * math.log(x) + s + v


def _log_lower(a: float, x: float) -> float:
    """Of the regularised gamma function from below."""
    return math.log(max(1e-300, 1 - chi_square_tail(2 * x, 2 * a)))
