"""Whether counts by bin are still what they were, asked window after window, for ever, with a known rate of false alarms.

Each of many alternatives (a shift by so much, a wider spread, a bin twice as full) bets against the reference on every window.
The bets of a Shiryaev-Roberts detector are added up from every window on: where nothing has changed, their sum grows by one a
window on average, so that it reaches N after N windows at the soonest, on average. `distances` says how large a change is.

A reference is a sample itself, and what is only its noise comes back in every window, for ever. So nobody bets against the
shares it has, but against whatever the law behind it may be: a bet that one bin is fuller is made against the most that the
bin may hold, and bets on all bins together pay, row by row, for how far the reference may be off.
"""

import math
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.base.values import value

Numbers = NDArray[np.float64]
_SHIFTS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)  # of a normal variable, in its standard deviations
_SCALES: Final = (0.8, 1.25, 2.0)
_BIN_ODDS: Final = (0.5, 2.0, 8.0)  # of a row lying in a bin: times of the share itself would pass by all but the small bins
_ORDERED: Final = 0.7  # of the stakes, where bins have an order, are on alternatives that use it
_LEAST_LOG: Final = -700.0
_HALVINGS: Final = 40
# How many standard deviations a reference may be off: with 76 bets on each of 100 features, one in forty references has any
# that is off by more.
_SURE: Final = 4.5


@value
class Alternatives:
    """What is bet on: a row for each, of logarithms of how much likelier it makes a bin; and the logarithms of the stakes."""

    times: Numbers
    stakes: Numbers


def reference_shares(counts: ArrayLike) -> Numbers:
    """Of each bin. One that nobody has seen yet counts a row: what was not seen is rare, and not impossible."""
    seen = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    return np.asarray(seen / seen.sum())


def alternatives(shares: Numbers, *, ordered: int, rows: float = math.inf) -> Alternatives:
    """To a reference with these shares, counted of so many rows; it is exact where there is no end of them, or none. The first
    `ordered` bins follow each other, as numbers do; the others (what is missing, what is new, kinds) stand for themselves.
    What can win in no window, as the reference is too small for it, is not bet on."""
    rows = rows or math.inf
    smooth = _paid(shares, _smooth(shares, ordered), rows) if ordered > 1 else []
    single = _single(shares, rows) if len(shares) > 1 else []
    parts = [(smooth, _ORDERED if single else 1.0), (single, 1 - _ORDERED if smooth else 1.0)]
    times = [row for part, _ in parts for row in part]
    stakes = [stake / len(part) for part, stake in parts for _ in part]
    if not times:  # a single bin: nothing can be said
        return Alternatives(times=np.zeros((1, len(shares))), stakes=np.zeros(1))
    return Alternatives(times=np.array(times), stakes=np.log(np.array(stakes)))


def _paid(shares: Numbers, wanted: list[Numbers], rows: float) -> list[Numbers]:
    """Logarithms of how much likelier each makes a bin, less what it pays: by the law behind the reference, a bet multiplies a
    stake by 1 on average, give or take the spread of its factors over the rows of the reference, and by little more where a
    few rows have large ones (as in Bernstein's inequality)."""
    found = []
    for row in wanted:
        factors = np.maximum(row, 1e-300) / shares
        spread = math.sqrt(float(shares @ (factors - 1) ** 2) / rows)
        price = math.log1p(_SURE * spread + _SURE**2 / 6 * float(factors.max()) / rows)
        times = np.log(factors)
        if float(times.max()) > price:
            found.append(times - price)
    return found


def _smooth(shares: Numbers, ordered: int) -> list[Numbers]:
    """A normal variable moved, or spread, and seen through the bins."""
    inside = shares[:ordered].sum()
    normal = NormalDist()
    edges = np.cumsum(shares[:ordered] / inside)[:-1]
    places = np.array([-math.inf, *(normal.inv_cdf(min(max(float(edge), 1e-12), 1 - 1e-12)) for edge in edges), math.inf])
    found = []
    for moved, scale in [(sign * by, 1.0) for by in _SHIFTS for sign in (-1, 1)] + [(0.0, by) for by in _SCALES]:
        below = np.array([normal.cdf((place - moved) / scale) for place in places])
        row = shares.copy()
        row[:ordered] = inside * np.maximum(np.diff(below), 1e-12)
        found.append(row / row.sum())
    return found


def _single(shares: Numbers, rows: float) -> list[Numbers]:
    """One bin fuller or emptier than it may be by the reference, the others in proportion."""
    found = []
    least, most = _limits(shares, rows)
    for place in range(len(shares)):
        for times in _BIN_ODDS:
            share = float(most[place] if times > 1 else least[place])
            wanted = share * times / (1 - share + share * times)
            if abs(wanted - share) < 1e-9:
                continue
            row = np.full(len(shares), math.log((1 - wanted) / (1 - share)))
            row[place] = math.log(wanted / share)
            found.append(row)
    return found


def _limits(shares: Numbers, rows: float) -> tuple[Numbers, Numbers]:
    """Between which each share may really lie: where what was seen is not unlikelier than `_SURE` standard deviations of a
    normal variable. Holds for bins with a few rows, and with none."""
    if math.isinf(rows):
        return shares, shares

    def farthest(outside: Numbers) -> Numbers:
        inside = shares
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            apart = shares * np.log(shares / middle) + (1 - shares) * np.log(
                np.maximum(1 - shares, 1e-300) / np.maximum(1 - middle, 1e-300)
            )
            near = rows * apart < _SURE**2 / 2
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return inside

    least, most = farthest(np.full(len(shares), 1e-12)), farthest(np.full(len(shares), 1 - 1e-12))
    return np.where(rows * shares <= 1, 0.0, least), most  # the row of a bin that nobody has seen is not there


@value
class Detector:
    """What one feature's bets have come to: a logarithm for each alternative, and the window from which each of them has done
    well. Values to be kept; `watched` makes the next."""

    bets: tuple[float, ...]
    best: tuple[float, ...]
    since: tuple[int, ...]
    windows: int = 0


@value
class Watched:
    """`evidence` is the logarithm of the sum of all bets, to be held against `threshold`; `since` the window in which what the
    strongest alternative says began."""

    detector: Detector
    evidence: float
    since: int


def fresh(against: Alternatives) -> Detector:
    count = len(against.stakes)
    return Detector(bets=(_LEAST_LOG,) * count, best=(0.0,) * count, since=(0,) * count)


def watched(detector: Detector, counts: ArrayLike, against: Alternatives) -> Watched:
    """After one more window."""
    gained: Any = against.times @ np.asarray(counts, dtype=np.float64)
    bets = np.logaddexp(np.array(detector.bets), 0.0) + gained
    before, starts = np.array(detector.best), np.array(detector.since)
    starts = np.where(before <= 0, detector.windows, starts)
    best = np.maximum(before, 0.0) + gained
    weighed = bets + against.stakes
    strongest = int(np.argmax(weighed))
    bets = np.maximum(bets, _LEAST_LOG)
    found = Detector(
        bets=tuple(map(float, bets)), best=tuple(map(float, best)), since=tuple(map(int, starts)), windows=detector.windows + 1
    )
    return Watched(detector=found, evidence=float(np.logaddexp.reduce(weighed)), since=int(starts[strongest]))


def threshold(features: int, windows: float) -> float:
    """What the evidence for one of so many features must reach, so that all of them together give a false alarm once in so many
    windows, or more rarely."""
    return math.log(max(1, features) * max(1.0, windows))
