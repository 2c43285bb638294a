"""How far two distributions are from each other, as sizes of an effect: they do not grow with the number of rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


def kolmogorov_smirnov(first: ArrayLike, second: ArrayLike) -> float:
    """The largest distance between two cumulative distributions, from 0 to 1."""
    left, right = np.sort(_plain(first)), np.sort(_plain(second))
    if not len(left) or not len(right):
        return 0.0
    places = np.concatenate([left, right])
    below = np.searchsorted(left, places, side="right") / len(left) - np.searchsorted(right, places, side="right") / len(right)
    return float(np.abs(below).max())


def weighted_kolmogorov_smirnov(first: ArrayLike, weights: ArrayLike, second: ArrayLike) -> float:
    """The same, where the first is known by places and how much of it lies at each: what a stored profile keeps."""
    places, mass, right = _plain(first), _plain(weights), np.sort(_plain(second))
    if not len(places) or not len(right) or mass.sum() <= 0:
        return 0.0
    order = np.argsort(places, kind="stable")
    cumulated = np.concatenate([[0.0], np.cumsum(mass[order])]) / mass.sum()
    everywhere = np.concatenate([places, right])
    left = cumulated[np.searchsorted(places[order], everywhere, side="right")]
    return float(np.abs(left - np.searchsorted(right, everywhere, side="right") / len(right)).max())


def population_stability(expected: ArrayLike, observed: ArrayLike) -> float:
    """PSI of counts by bin. An empty bin counts half a row: otherwise a single row in it would be infinitely far."""
    first, second = (_shares(np.maximum(_plain(counts), 0.5)) for counts in (expected, observed))
    return float(((second - first) * np.log(second / first)).sum())


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> float:
    """The distance (the root of the divergence, in bits) of two lists of counts: 0 where they are alike, 1 where disjoint."""
    left, right = _shares(_plain(first)), _shares(_plain(second))
    middle = (left + right) / 2
    divergence = sum(float((part[part > 0] * np.log2(part[part > 0] / middle[part > 0])).sum()) for part in (left, right)) / 2
    return float(np.sqrt(max(0.0, divergence)))


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """The share of rows that would have to be of another kind for two lists of counts to be alike, from 0 to 1."""
    return float(np.abs(_shares(_plain(first)) - _shares(_plain(second))).sum() / 2)


def quantile_edges(numbers: ArrayLike, bins: int = 10) -> Numbers:
    """Inner edges that cut the numbers into about equal parts; fewer where many are the same."""
    return np.unique(np.quantile(_plain(numbers), np.linspace(0, 1, bins + 1)[1:-1]))


def counts_between(numbers: ArrayLike, edges: ArrayLike) -> NDArray[np.int64]:
    """How many lie in each bin; the outer two are open."""
    return np.bincount(np.searchsorted(_plain(edges), _plain(numbers), side="left"), minlength=len(_plain(edges)) + 1)


def _plain(numbers: ArrayLike) -> Any:
    return np.asarray(numbers, dtype=np.float64).ravel()


def _shares(counts: Numbers) -> Numbers:
    total = counts.sum()
    return counts / total if total else counts
