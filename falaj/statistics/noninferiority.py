"""Whether one of two, asked about the same rows, is at most a little worse than the other."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.statistics.distributions import student_quantile, student_tail

FEWEST: Final = 30  # rows that a mean is told of: a few that happen to be alike would show anything
_HALVINGS: Final = 30
_FEW: Final = 40  # rows that only one of the two has right: up to that, outcomes are counted one by one
_MORE: Final = 30  # than were seen, of each kind, are counted
_NOTHING: Final = 1e-15
_DRAWS: Final = 100
Counts: TypeAlias = NDArray[np.float64] | np.float64


@value
class Compared:
    """`drop` is how much worse the second is, `high` what it is at most with the confidence asked for, and `chance` how often
    rows like these would come from one that is worse by the whole margin or more."""

    drop: float
    high: float
    chance: float


def of_shares(rows: int, only_first: int, only_second: int, *, margin: float, confidence: float) -> Compared:
    """Of two shares of rows that are right, `only_first` being right in one alone. By Tango's score; where the two hardly ever
    differ, its distribution is counted out, for then it is far from normal: without a single difference the rows alone say
    what may have been missed."""
    if rows < 1:
        return Compared(drop=math.nan, high=1.0, chance=1.0)

    def chance(drop: float) -> float:
        return _chance(rows, only_first, only_second, drop)

    found = (only_first - only_second) / rows
    return Compared(drop=found, high=_where(chance, 1 - confidence, found, 1.0), chance=chance(margin))


def chance_of_no_more(rows: int, only_first: int, only_second: int, *, margin: float) -> float:
    """How often rows like these would come from a second one that is worse by the margin and no more: seldom, where it is shown
    to be worse than that."""
    if rows < 1:
        return 1.0
    return _chance(rows, only_first, only_second, margin, or_higher=True)


def likely_shown(rows: int, drop: float, changes: float, *, margin: float, confidence: float) -> float:
    """How likely so many rows are to show that the second is not worse by the margin, where it is worse by `drop` and answers
    otherwise to a share `changes` of them; by a few seeded draws."""
    if rows < 1:
        return 0.0
    differ = max(changes, abs(drop))
    drawn = np.random.default_rng(0).poisson((rows * (differ + drop) / 2, rows * (differ - drop) / 2), (_DRAWS, 2))
    return float(
        np.mean([_chance(rows, int(lost), int(won), margin) <= 1 - confidence for lost, won in np.minimum(drawn, rows)])
    )


def _chance(rows: int, only_first: int, only_second: int, drop: float, *, or_higher: bool = False) -> float:
    """How often the score is as low as it was, or lower, where the second is really worse by `drop`; or as high, or higher."""
    differing = only_first + only_second
    seen = float(_tango(rows, np.float64(only_first), np.float64(only_second), drop))
    if differing > _FEW:
        return NormalDist().cdf(-seen if or_higher else seen)
    other = float(_likeliest(rows, np.float64(only_first), np.float64(only_second), drop))
    counted = np.arange(min(rows, differing + _MORE) + 1, dtype=np.float64)
    weights = np.outer(_poisson(counted, rows * (other + drop)), _poisson(counted, rows * other))
    scores = _tango(rows, counted[:, None], counted[None, :], drop)
    if or_higher:  # with what is beyond those that are counted
        return float(1 - weights[scores < seen - 1e-12].sum())
    return float(weights[scores <= seen + 1e-12].sum())


def _poisson(counts: Counts, mean: float) -> Counts:
    if mean <= 0:
        return np.asarray(counts == 0, dtype=np.float64)
    factorials = np.cumsum(np.log(np.maximum(1.0, counts)))
    return np.asarray(np.exp(counts * math.log(mean) - mean - factorials))


def _likeliest(rows: int, only_first: Counts, only_second: Counts, drop: float) -> Counts:
    """The likeliest share of `only_second` where the second is worse by `drop`."""
    a = 2 * rows
    b = -only_first - only_second + (2 * rows - only_first + only_second) * drop
    c = -only_second * drop * (1 - drop)
    return np.asarray((np.sqrt(np.maximum(0.0, b * b - 4 * a * c)) - b) / (2 * a))


def _tango(rows: int, only_first: Counts, only_second: Counts, drop: float) -> Counts:
    """The score of what was seen, where the second is really worse by `drop`."""
    spread = rows * (2 * _likeliest(rows, only_first, only_second, drop) + drop * (1 - drop))
    return np.asarray((only_first - only_second - rows * drop) / np.sqrt(np.maximum(spread, _NOTHING)))


def _where(chance: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """The chance falls as the drop that is assumed grows."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > wanted else (low, middle)
    return high


def of_differences(rows: int, total: float, squares: float, *, margin: float, confidence: float) -> Compared:
    """Of what rows are charged twice, by the sum of the differences and of their squares: by Student's test of the mean
    difference, row by row."""
    if rows < FEWEST:
        return Compared(drop=total / rows if rows else math.nan, high=math.inf, chance=1.0)
    mean, degrees = total / rows, rows - 1
    spread = math.sqrt(max(0.0, (squares - rows * mean * mean) / degrees) / rows)
    certain = 0.0 if mean < margin else 1.0
    chance = 1 - student_tail((mean - margin) / spread, degrees) if spread > 0 else certain
    return Compared(drop=mean, high=mean + student_quantile(confidence, degrees) * spread, chance=chance)


@value
class Sums:
    """Over rows: of two errors, of their squares, and of their products."""

    rows: int
    first: float
    second: float
    first_squares: float
    second_squares: float
    products: float


def of_means(sums: Sums, *, margin: float, confidence: float) -> Compared:
    """Of two mean errors, as a share of the first's: by Student's test of `second - (1 + margin) * first`, row by row. Of a
    first without any error there is no share: a second without any is as good, any other endlessly worse."""
    if not sums.rows:
        return Compared(drop=math.nan, high=math.inf, chance=1.0)
    drop = sums.second / sums.first - 1 if sums.first > 0 else math.inf if sums.second > 0 else 0.0
    if sums.rows < FEWEST:
        return Compared(drop=drop, high=math.inf, chance=1.0)
    if sums.first <= 0:
        return Compared(drop=drop, high=drop, chance=1.0 if drop else 0.0)
    degrees, rows = sums.rows - 1, sums.rows

    def score(drop: float) -> float:
        times = 1 + drop
        mean = (sums.second - times * sums.first) / rows
        squares = sums.second_squares - 2 * times * sums.products + times * times * sums.first_squares
        spread = math.sqrt(max(0.0, (squares - rows * mean * mean) / degrees) / rows)
        return mean / spread if spread > 0 else math.copysign(math.inf, mean) if mean else 0.0

    at_margin, wanted = score(margin), -student_quantile(confidence, degrees)
    chance = 1 - student_tail(at_margin, degrees) if math.isfinite(at_margin) else float(at_margin > 0)
    top = drop + 1.0
    while score(top) > wanted and top < 1e6:
        top = 2 * top + 1
    return Compared(drop=drop, high=_where(score, wanted, drop, top), chance=chance)
