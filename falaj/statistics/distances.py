"""How far two distributions are from each other, as sizes of an effect: they do not grow with the number of rows.

Of counts by bin, those that need an order take the bins as they follow each other. Where one side is empty, nothing can be
said, and the distance is 0.
"""

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


def kolmogorov_smirnov_of_counts(first: ArrayLike, second: ArrayLike) -> float:
    """The same, of counts by bin: at most the distance of the numbers themselves, and short of it by no more than the largest
    bin holds of both."""
    left, right = _two_shares(first, second)
    return float(np.abs(np.cumsum(left - right)).max(initial=0.0))


def wasserstein_of_counts(first: ArrayLike, second: ArrayLike, edges: ArrayLike, least: float, largest: float) -> float:
    """How far a number has moved on average, in its own unit. Numbers are taken to lie evenly within their bin, in the two open
    bins between `least` or `largest` and the edge next to it; what lies beyond counts as if it lay within. Each bin is wrong
    by half its width at most, for the share of rows it holds of either: extremes make the outer ones wide."""
    left, right = _two_shares(first, second)
    inner = _plain(edges)
    places = np.concatenate([np.minimum(least, inner[:1]), inner, np.maximum(largest, inner[-1:])])
    if not len(inner):
        return 0.0
    apart = np.concatenate([[0.0], np.cumsum(left - right)])
    start, end = np.abs(apart[:-1]), np.abs(apart[1:])
    crossing = apart[:-1] * apart[1:] < 0  # the area is then that of two triangles
    heights = np.where(crossing, (start**2 + end**2) / np.maximum(start + end, 1e-300), start + end) / 2
    return float((heights * np.diff(places)).sum())


def population_stability(expected: ArrayLike, observed: ArrayLike) -> float:
    """PSI of counts by bin. An empty bin counts half a row: otherwise a single row in it would be infinitely far."""
    if _plain(expected).sum() <= 0 or _plain(observed).sum() <= 0:
        return 0.0
    first, second = (_shares(np.maximum(_plain(counts), 0.5)) for counts in (expected, observed))
    return float(((second - first) * np.log(second / first)).sum())


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> float:
    """The distance (the root of the divergence, in bits) of two lists of counts: 0 where they are alike, 1 where disjoint."""
    left, right = _two_shares(first, second)
    middle = (left + right) / 2
    divergence = sum(float((part[part > 0] * np.log2(part[part > 0] / middle[part > 0])).sum()) for part in (left, right)) / 2
    return float(np.sqrt(max(0.0, divergence)))


def cramer(first: ArrayLike, second: ArrayLike) -> float:
    """Cramer's V of two lists of counts over the same kinds, as if both had as many rows: 0 where they are alike, 1 where
    disjoint. The chance of its chi-square is `significance.chi_square_of_counts`."""
    left, right = _two_shares(first, second)
    both = np.maximum(left + right, 1e-300)
    return float(np.sqrt(((left - right) ** 2 / both).sum() / 2))


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """The share of rows that would have to be of another kind for two lists of counts to be alike, from 0 to 1."""
    left, right = _two_shares(first, second)
    return float(np.abs(left - right).sum() / 2)


def quantile_edges(numbers: ArrayLike, bins: int = 10) -> Numbers:
    """Inner edges that cut the numbers into about equal parts; fewer where many are the same."""
    return np.unique(np.quantile(_plain(numbers), np.linspace(0, 1, bins + 1)[1:-1]))


def counts_between(numbers: ArrayLike, edges: ArrayLike) -> NDArray[np.int64]:
    """How many lie in each bin; the outer two are open."""
    return np.bincount(np.searchsorted(_plain(edges), _plain(numbers), side="left"), minlength=len(_plain(edges)) + 1)


def _plain(numbers: ArrayLike) -> Any:
    return np.asarray(numbers, dtype=np.float64).ravel()


def _shares(counts: Numbers) -> Numbers:
    return np.asarray(counts / counts.sum())


def _two_shares(first: ArrayLike, second: ArrayLike) -> tuple[Numbers, Numbers]:
    """Of both, or nothing but noughts where one is empty."""
    left, right = _plain(first), _plain(second)
    if left.sum() <= 0 or right.sum() <= 0:
        return np.zeros(len(left)), np.zeros(len(left))
    return _shares(left), _shares(right)
