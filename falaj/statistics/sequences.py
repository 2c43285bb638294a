"""Confidence sequences: how far a sum can get from its mean, at every look at once, however often somebody looks.

For steps within known bounds it holds exactly, from the first on; for others nearly, once there are some hundred. All it takes
of the steps are sums, so that windows can be added up as they come, in any order.
"""

import math
from typing import Final

from falaj.base.values import value
from falaj.statistics.distributions import chi_square_tail

_HALVINGS: Final = 40
# Where bounds are narrowest, at the price of being a little wider elsewhere: at about eight times as many squares of the
# largest step, which are one or two thousand rows of a test of two arms; without bounds, at a few thousand rows.
_TUNED: Final = 20.0
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
class Walk:
    """A sum of steps, each less its mean. `spread` sums their squared distances from what was expected before they came,
    `largest` is how far that can be of one step. Where nobody knows, it is 0, and `usual` is what a row adds to the spread."""

    spread: float
    largest: float = 0.0
    usual: float = 0.0

    def evidence(self, distance: float) -> float:
        """The logarithm of how strongly it speaks against the means that the sum is so far above them: beyond log(20), one in
        twenty that look for ever would ever see it where they are right.

        Mixtures of bets that the sum lies above; both are Howard, Ramdas, McAuliffe and Sekhon's."""
        if self.largest:
            return _gamma_exponential(max(0.0, distance) / self.largest, self.spread / self.largest / self.largest)
        tuned, above = self._tuned(), max(0.0, distance)
        return above * above / (2 * (self.spread + tuned)) - math.log1p(self.spread / tuned) / 2

    def farthest(self, wanted: float) -> float:
        """The distance from which on evidence is as strong as `wanted`."""
        if not self.largest:
            tuned = self._tuned()
            return math.sqrt((self.spread + tuned) * (2 * wanted + math.log1p(self.spread / tuned)))
        low, high = 0.0, max(self.largest, math.sqrt(self.spread))
        while self.evidence(high) < wanted:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.evidence(middle) < wanted else (low, middle)
        return high

    def _tuned(self) -> float:
        return max(_TUNED_ROWS * self.usual, 1e-300)


def _gamma_exponential(s: float, v: float) -> float:
    """For steps of at most 1, their sum `s` above its mean and their squared distances `v`."""
    a, x = v + _TUNED, s + v + _TUNED
    first = _TUNED * math.log(_TUNED) - math.lgamma(_TUNED) - _log_lower(_TUNED, _TUNED)
    return first + math.lgamma(a) + _log_lower(a, x) - a * math.log(x) + s + v


def _log_lower(a: float, x: float) -> float:
    """Of the regularised gamma function from below."""
    return math.log(max(1e-300, 1 - chi_square_tail(2 * x, 2 * a)))
