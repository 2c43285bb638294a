"""How sure a figure is."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.statistics.distributions import normal_quantile, student_quantile


@value
class Interval:
    """A figure, and between what it lies with the confidence that was asked for."""

    at: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.at:.4g} ({self.low:.4g} to {self.high:.4g})"


def wilson(hits: int, rows: int, confidence: float = 0.95) -> Interval:
    """Of a share; sensible with few rows, and at 0 and 1."""
    if rows <= 0:
        return Interval(at=math.nan, low=0.0, high=1.0)
    z, share = normal_quantile((1 + confidence) / 2), hits / rows
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows)) / (1 + z * z / rows)
    return Interval(at=share, low=max(0.0, middle - half), high=min(1.0, middle + half))


def mean_of_rows(numbers: NDArray[np.float64], confidence: float = 0.95) -> Interval:
    """Of a mean over independent rows."""
    rows = len(numbers)
    mean = float(np.mean(numbers)) if rows else math.nan
    if rows < 2:
        return Interval(at=mean, low=-math.inf, high=math.inf)
    half = student_quantile((1 + confidence) / 2, rows - 1) * float(np.std(numbers, ddof=1)) / math.sqrt(rows)
    return Interval(at=mean, low=mean - half, high=mean + half)


def mean_of_folds(scores: Sequence[float], tested: float, confidence: float = 0.95) -> Interval:
    """Of the mean over folds of a cross-validation, `tested` being the rows tested for each row trained on.

    Folds share most of their rows, so their spread alone makes the interval too narrow; the correction is Nadeau and Bengio's.
    """
    count, mean = len(scores), float(np.mean(scores)) if len(scores) else math.nan
    if count < 2:
        return Interval(at=mean, low=-math.inf, high=math.inf)
    half = student_quantile((1 + confidence) / 2, count - 1) * float(np.std(scores, ddof=1)) * math.sqrt(1 / count + tested)
    return Interval(at=mean, low=mean - half, high=mean + half)


def quantile(numbers: NDArray[np.float64], share: float, confidence: float = 0.95) -> Interval:
    """Of what so large a share of independent numbers keeps to: between which of those that were seen it lies. The upper end is
    the largest where more would be needed to know."""
    seen, at = np.sort(numbers), len(numbers) * share
    spread = normal_quantile((1 + confidence) / 2) * math.sqrt(at * (1 - share))
    low, high = max(0, math.floor(at - spread) - 1), min(len(seen) - 1, math.ceil(at + spread))
    return Interval(at=float(np.quantile(seen, share)), low=float(seen[low]), high=float(seen[high]))


def bootstrap(
    figure: Callable[[NDArray[np.int64]], float], rows: int, *, seed: int = 0, times: int = 200, confidence: float = 0.95
) -> Interval:
    """Of any figure of rows, by drawing them again: `figure` is given the numbers of the rows that were drawn."""
    random = np.random.default_rng(seed)
    drawn = np.array([figure(random.integers(0, rows, rows)) for _ in range(times)])
    drawn = drawn[np.isfinite(drawn)]
    at = figure(np.arange(rows))
    if len(drawn) < 2:
        return Interval(at=at, low=-math.inf, high=math.inf)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(at=at, low=float(low), high=float(high))


def by_blocks(
    figure: Callable[[NDArray[np.int64]], float], rows: int, *, seed: int = 0, blocks: int = 20, confidence: float = 0.95
) -> Interval:
    """The same at the price of one figure more: its spread over parts of the rows, drawn by chance."""
    at = figure(np.arange(rows))
    parts = np.array_split(np.random.default_rng(seed).permutation(rows), blocks) if rows >= 10 * blocks else []
    found = np.array([figure(part) for part in parts])
    found = found[np.isfinite(found)]
    if len(found) < 2:
        return Interval(at=at, low=-math.inf, high=math.inf)
    half = student_quantile((1 + confidence) / 2, len(found) - 1) * float(np.std(found, ddof=1)) / math.sqrt(len(found))
    return Interval(at=at, low=at - half, high=at + half)
