"""What each prediction cost, and means of it from sums: windows add up to what all rows together would have given."""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.statistics.distributions import student_quantile
from falaj.statistics.intervals import Interval
from falaj.statistics.sequences import Sums

Numbers = NDArray[np.float64]
_LEAST_CHANCE: Final = 1e-15  # of the truth, that a model is held to have given it


def log_losses(chances: ArrayLike, truth: ArrayLike) -> Numbers:
    """`chances` are of the kinds, a column for each, and `truth` the column that was right; or chances of one kind alone, and
    whether it was that."""
    table, right = _columns(chances, truth)
    return np.asarray(-np.log(np.clip(table[np.arange(len(table)), right], _LEAST_CHANCE, 1.0)))


def brier_losses(chances: ArrayLike, truth: ArrayLike) -> Numbers:
    """The squared distance from having been sure of the truth: of one kind from 0 to 1, of several from 0 to 2."""
    table, right = _columns(chances, truth)
    apart = table.copy()
    apart[np.arange(len(table)), right] -= 1
    squares = (apart**2).sum(axis=1)
    return np.asarray(squares if np.ndim(chances) == 2 else squares / 2)


def sums_of(numbers: ArrayLike) -> Sums:
    found = np.asarray(numbers, dtype=np.float64)
    return Sums(rows=len(found), total=float(found.sum()), squares=float((found**2).sum()))


def mean_of_sums(sums: Sums, confidence: float = 0.95) -> Interval:
    """Of a mean over independent rows, whatever windows they came in."""
    mean = sums.total / sums.rows if sums.rows else math.nan
    if sums.rows < 2 or not math.isfinite(sums.squares):
        return Interval(at=mean, low=-math.inf, high=math.inf)
    half = student_quantile((1 + confidence) / 2, sums.rows - 1) * math.sqrt(sums.around(mean) / (sums.rows - 1) / sums.rows)
    return Interval(at=mean, low=mean - half, high=mean + half)


def root_of_sums(squares: Sums, confidence: float = 0.95) -> Interval:
    """Of the root of a mean, as RMSE is, from sums over the squared errors."""
    mean = mean_of_sums(squares, confidence)
    return Interval(at=math.sqrt(mean.at), low=math.sqrt(max(0.0, mean.low)), high=math.sqrt(mean.high))


def _columns(chances: ArrayLike, truth: ArrayLike) -> tuple[Numbers, NDArray[np.int64]]:
    table = np.asarray(chances, dtype=np.float64)
    table = table if table.ndim == 2 else np.stack([1 - table, table], axis=1)
    return table, np.asarray(truth).astype(np.int64)
