"""One arm of an experiment as sums over its rows, which is all that is kept of them: see `contests`."""

import math
from collections.abc import Sequence
from dataclasses import replace

from falaj.base.values import value


@value
class Left:
    """Of what the arm's own mean, or ratio, leaves of its rows: squares, products with what was known, and its squares."""

    squares: float
    products: float
    known: float


@value
class Arm:
    """What came of rows, what that is `per` (1 where it is of the row itself), what was `known` of each before (0 of all where
    nothing was), with squares and products. `spread` sums squared distances from what was expected before each window came."""

    rows: int = 0
    came: float = 0.0
    per: float = 0.0
    known: float = 0.0
    came_came: float = 0.0
    came_per: float = 0.0
    came_known: float = 0.0
    per_per: float = 0.0
    per_known: float = 0.0
    known_known: float = 0.0
    spread: float = 0.0

    def __add__(self, other: "Arm") -> "Arm":
        return Arm(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    @property
    def mean(self) -> float:
        """Of a ratio the ratio; not a number before there is anything."""
        return self.came / self.per if self.per else math.nan

    @property
    def usually_known(self) -> float:
        return self.known / self.rows if self.rows else 0.0

    def grown(self, window: "Arm", expected: float) -> "Arm":
        """With one more window, of each of whose rows so much was expected before any of them came."""
        squares = window.came_came - 2 * expected * window.came + window.rows * expected * expected
        return self + replace(window, spread=max(0.0, squares))

    def left(self) -> Left:
        if not self.rows or self.per <= 0:
            return Left(squares=math.nan if self.rows else 0.0, products=0.0, known=0.0)
        ratio, usual = self.mean, self.per / self.rows
        squares = self.came_came - 2 * ratio * self.came_per + ratio * ratio * self.per_per
        return Left(
            squares=max(0.0, squares) / usual / usual,
            products=(self.came_known - ratio * self.per_known) / usual,
            known=max(0.0, self.known_known - self.known * self.known / self.rows),
        )


def arm_of(came: Sequence[float], per: Sequence[float] = (), known: Sequence[float] = ()) -> Arm:
    per, known = per or [1.0] * len(came), known or [0.0] * len(came)
    columns = {"came": came, "per": per, "known": known}
    sums = {name: math.fsum(some) for name, some in columns.items()}
    pairs = [("came", "came"), ("came", "per"), ("came", "known"), ("per", "per"), ("per", "known"), ("known", "known")]
    for one, other in pairs:
        sums[f"{one}_{other}"] = math.fsum(a * b for a, b in zip(columns[one], columns[other], strict=True))
    return Arm(rows=len(came), **sums)


_NAMES = tuple(Arm.__dataclass_fields__)
