"""Whether counts by bin are still what they were, asked window after window, for ever, with a known rate of false alarms.

Each of many alternatives (a shift by so much, a wider spread, a bin twice as full) bets against the reference on every window.
The bets of a Shiryaev-Roberts detector are added up from every window on: where nothing has changed, their sum grows by one a
window on average, so that it reaches N after N windows at the soonest, on average. `distances` says how large a change is.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.base.values import value

Numbers = NDArray[np.float64]
_SHIFTS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)  # of a normal variable, in its standard deviations
_SCALES: Final = (0.8, 1.25, 2.0)
_BIN_TIMES: Final = (0.5, 2.0, 8.0)
_MOST_OF_ALL: Final = 0.9  # what one bin is made to hold at most
_ORDERED: Final = 0.7  # of the stakes, where bins have an order, are on alternatives that use it
_LEAST_LOG: Final = -700.0


@value
class Alternatives:
    """What is bet on: a row for each, of logarithms of how much likelier it makes a bin; and the logarithms of the stakes."""

    times: Numbers
    stakes: Numbers


def reference_shares(counts: ArrayLike) -> Numbers:
    """Of each bin. One that nobody has seen yet counts a row: what was not seen is rare, and not impossible."""
    seen = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    return np.asarray(seen / seen.sum())


def alternatives(shares: Numbers, *, ordered: int) -> Alternatives:
    """To a reference with these shares. The first `ordered` bins follow each other, as numbers do; the others (what is missing,
    what is new, kinds) stand for themselves."""
    smooth = _smooth(shares, ordered) if ordered > 1 else []
    single = _single(shares)
    parts = [(smooth, _ORDERED if single else 1.0), (single, 1 - _ORDERED if smooth else 1.0)]
    rows = [row for part, _ in parts for row in part]
    stakes = [stake / len(part) for part, stake in parts for _ in part]
    if not rows:  # a single bin: nothing can be said
        return Alternatives(times=np.zeros((1, len(shares))), stakes=np.zeros(1))
    times = np.log(np.maximum(np.array(rows), 1e-300)) - np.log(shares)
    return Alternatives(times=times, stakes=np.log(np.array(stakes)))


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


def _single(shares: Numbers) -> list[Numbers]:
    """One bin fuller or emptier, the others in proportion."""
    found = []
    for place, share in enumerate(shares):
        for times in _BIN_TIMES:
            wanted = min(share * times, _MOST_OF_ALL)
            if abs(wanted - share) < 1e-9 or share >= 1:
                continue
            row = shares * (1 - wanted) / (1 - share)
            row[place] = wanted
            found.append(row)
    return found


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


def pooled(windows: Sequence[ArrayLike]) -> Numbers:
    """Counts of several windows together."""
    return np.asarray(np.sum([np.asarray(one, dtype=np.float64) for one in windows], axis=0))
