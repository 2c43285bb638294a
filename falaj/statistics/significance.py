"""Whether a difference is more than chance, and what remains of that when many are asked at once."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.statistics.distributions import chi_square_tail, kolmogorov_tail


def kolmogorov_smirnov_chance(distance: float, first: int, second: int) -> float:
    """How often samples of these sizes from one distribution are at least this far apart. For numbers that repeat it is too
    large rather than too small."""
    if not first or not second:
        return 1.0
    # The correction of Stephens, good from a handful of rows on.
    root = math.sqrt(first * second / (first + second))
    return kolmogorov_tail((root + 0.12 + 0.11 / root) * distance)


def chi_square_of_counts(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """The statistic and its chance for two lists of counts over the same kinds.

    Kinds that would be expected fewer than five times are put together: the distribution holds for the others only.
    """
    table = _gathered(np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)]))
    rows, columns, total = table.sum(axis=1), table.sum(axis=0), table.sum()
    if table.shape[1] < 2 or min(rows) <= 0:
        return 0.0, 1.0
    expected = np.outer(rows, columns) / total
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, chi_square_tail(statistic, table.shape[1] - 1)


def _gathered(table: NDArray[np.float64], least: float = 5.0) -> NDArray[np.float64]:
    columns = table.sum(axis=0)
    table, columns = table[:, columns > 0], columns[columns > 0]
    if not table.size:
        return table
    smaller = table.sum(axis=1).min() / max(1.0, table.sum())
    rare = columns * smaller < least
    if rare.sum() < 2:
        return table
    return np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)


def two_shares_chance(hits: int, rows: int, other_hits: int, other_rows: int) -> float:
    """How often two samples with one common share of hits differ at least this much."""
    return chi_square_of_counts([hits, rows - hits], [other_hits, other_rows - other_hits])[1]


def benjamini_hochberg(chances: Sequence[float]) -> list[float]:
    """Each chance adjusted for how many were asked: among those kept at most q, a share of q is false on average."""
    order = np.argsort(chances, kind="stable")
    scaled = np.asarray(chances)[order] * len(order) / np.arange(1, len(order) + 1)
    return _in_place(np.minimum.accumulate(scaled[::-1])[::-1], order)


def holm(chances: Sequence[float]) -> list[float]:
    """Each chance adjusted so that, at most q kept, the probability that any of them is false is at most q."""
    order = np.argsort(chances, kind="stable")
    scaled = np.asarray(chances)[order] * (len(order) - np.arange(len(order)))
    return _in_place(np.maximum.accumulate(scaled), order)


def _in_place(sorted_ones: NDArray[np.float64], order: NDArray[np.int64]) -> list[float]:
    found = np.empty(len(order))
    found[order] = np.minimum(sorted_ones, 1.0)
    return [float(one) for one in found]
