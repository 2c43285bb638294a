"""How good predictions were, once the truth is known: each figure with an interval, from one pass over the rows.

An answer without a number makes a figure one without a number: it is not left out in silence. `losses` has the figures that
windows can be added up to.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.statistics.distributions import normal_quantile
from falaj.statistics.intervals import Interval, wilson
from falaj.statistics.losses import brier_losses, log_losses, mean_of_sums, root_of_sums, sums_of
from falaj.statistics.ranks import area

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]
_BINS: Final = 10
_DRAWN: Final = 1000


def accuracy(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    right = np.asarray(predicted) == np.asarray(truth)
    return wilson(int(right.sum()), len(right), confidence)


def balanced_accuracy(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean over kinds of how many of the rows of a kind were recognised."""
    return _over_kinds(predicted, truth, 0, confidence)


def f1(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean over kinds of the harmonic mean of how many were recognised and how many were so called rightly."""
    return _over_kinds(predicted, truth, 1, confidence)


def auc(scores: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    """How often a row that is true is put above one that is not. The spread is DeLong's; where all are told apart, there is
    none, and the smaller of the two kinds says how often that may be luck."""
    said, hits = np.asarray(scores, dtype=np.float64), np.asarray(truth, dtype=bool)
    above, below = np.sort(said[hits]), np.sort(said[~hits])
    if not len(above) or not len(below) or np.isnan(said).any():
        return Interval(at=math.nan, low=0.0, high=1.0)
    at = area(said, hits)
    placed = [
        (np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")) / (2 * len(others))
        for own, others in ((above, below), (below, above))
    ]
    spread = sum(float(np.var(one)) / max(1, len(one) - 1) for one in placed)
    if spread <= 0:
        fewer = min(len(above), len(below))
        sure = wilson(round(at * fewer), fewer, confidence)
        return Interval(at=at, low=min(at, sure.low), high=max(at, sure.high))
    return _normal(at, spread, confidence)


def calibration_error(confidences: ArrayLike, right: ArrayLike, confidence: float = 0.95, *, seed: int = 0) -> Interval:
    """ECE: how far what is said to be so likely is from how often it came true, over ten bins of equally many rows. What
    chance alone adds to it in each bin can have added no more than its size, or taken no more away."""
    said, came = np.asarray(confidences, dtype=np.float64), np.asarray(right, dtype=np.float64)
    rows = len(said)
    if not rows or np.isnan(said).any():
        return Interval(at=math.nan, low=0.0, high=1.0)
    parts = np.array_split((said - came)[np.argsort(said, kind="stable")], min(_BINS, rows))
    at = sum(abs(float(part.sum())) for part in parts) / rows
    spreads = np.array([math.sqrt(len(part) * max(float(np.var(part)), 1 / (4 * len(part)))) for part in parts])
    noise = np.abs(np.random.default_rng(seed).standard_normal((_DRAWN, len(parts)))) @ spreads / rows
    most = float(np.quantile(noise, confidence))
    return Interval(at=at, low=max(0.0, at - most), high=min(1.0, at + most))


def log_loss(chances: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    return mean_of_sums(sums_of(log_losses(chances, truth)), confidence)


def brier(chances: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    return mean_of_sums(sums_of(brier_losses(chances, truth)), confidence)


def rmse(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    return root_of_sums(sums_of(_errors(predicted, truth) ** 2), confidence)


def mae(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    return mean_of_sums(sums_of(np.abs(_errors(predicted, truth))), confidence)


def r2(predicted: ArrayLike, truth: ArrayLike, confidence: float = 0.95) -> Interval:
    """How much of the spread of the truth is explained. Below nought where the mean would have been a better prediction."""
    squares, came = _errors(predicted, truth) ** 2, np.asarray(truth, dtype=np.float64)
    apart = (came - came.mean()) ** 2 if len(came) else came
    if len(came) < 3 or not np.isfinite(squares).all() or apart.sum() <= 0:
        return Interval(at=math.nan, low=-math.inf, high=1.0)
    left = float(squares.sum() / apart.sum())
    spread = float(np.var((squares - left * apart) / apart.mean())) / len(came)
    return _normal(1 - left, spread, confidence, low=-math.inf)


def _errors(predicted: ArrayLike, truth: ArrayLike) -> Numbers:
    return np.asarray(predicted, dtype=np.float64) - np.asarray(truth, dtype=np.float64)


def _over_kinds(predicted: ArrayLike, truth: ArrayLike, called: int, confidence: float) -> Interval:
    """One row more of each kind that is right, and one that is wrong, are thought of for the spread alone: a figure without
    errors is not certain."""
    rows = len(np.asarray(truth))
    if not rows:
        return Interval(at=math.nan, low=0.0, high=1.0)
    codes = np.unique(np.concatenate([np.asarray(truth), np.asarray(predicted)]), return_inverse=True)[1]
    true, said = codes[:rows], codes[rows:]
    every = np.unique(codes if called else true)
    at, _ = _mean_over_kinds(true, said, called)
    if len(every) == 1:
        return wilson(round(at * rows), rows, confidence)
    moved = _mean_over_kinds(np.concatenate([true, every, every]), np.concatenate([said, every, np.roll(every, 1)]), called)[1]
    return _normal(at, float(np.var(moved)) / rows, confidence)


def _mean_over_kinds(true: Codes, said: Codes, called: int) -> tuple[float, Numbers]:
    """The mean, and how much each row moves it. `called` is 1 where rows that were called a kind count as those of it do."""
    kinds = int(max(true.max(), said.max())) + 1
    whole = np.bincount(true, minlength=kinds) + called * np.bincount(said, minlength=kinds)
    seen = np.maximum(whole, 1)
    each = (1 + called) * np.bincount(true[true == said], minlength=kinds) / seen
    counted = int((whole > 0).sum())
    by = np.where(true == said, (1 + called) / seen[true], 0.0) - each[true] / seen[true] - called * each[said] / seen[said]
    return float(each[whole > 0].mean()), by * len(true) / counted


def _normal(at: float, spread: float, confidence: float, low: float = 0.0) -> Interval:
    half = normal_quantile((1 + confidence) / 2) * math.sqrt(spread)
    return Interval(at=at, low=max(low, at - half), high=min(1.0, at + half))
