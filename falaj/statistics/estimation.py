"""How accurate a model probably is while no labels have come: from how sure it is, and how often that was right before."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.base.values import value
from falaj.statistics.distributions import normal_quantile
from falaj.statistics.intervals import Interval, wilson

Numbers = NDArray[np.float64]
ASSUMED: Final = "a prediction of a given confidence is right as often as it was in the reference (no concept drift)"


@value
class Calibration:
    """By bin of confidence, from the least to the largest: how often such a prediction was right (`right` never falls), how
    many rows the reference had (`rows`), and which bins were learnt together (`block`), as they did not rise by themselves."""

    right: tuple[float, ...]
    rows: tuple[float, ...]
    block: tuple[int, ...]
    reference: Interval


@value
class Estimate:
    """`accuracy` is that of the rows seen, `change` what their confidences say of it against the reference. Both hold where
    what `assumes` says is true: a model that is sure of what has become wrong is not found out this way."""

    accuracy: Interval
    reference: Interval
    change: Interval
    rows: int
    assumes: str = ASSUMED

    def __str__(self) -> str:
        return f"accuracy about {self.accuracy}, was {self.reference}, assuming that {self.assumes}"


def calibrated(hits: ArrayLike, rows: ArrayLike) -> Calibration:
    """Learnt from labelled rows of a reference, counted by bin of confidence: how many were right, and how many there were."""
    right, seen = np.asarray(hits, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    known = np.flatnonzero(seen > 0)
    if not len(known):
        raise ValueError("A calibration needs labelled rows; there are none in any bin of confidence.")
    blocks = _pooled(right[known], seen[known])
    shares = np.concatenate([np.full(bins, hit / count) for hit, count, bins in blocks])
    numbers = np.repeat(np.arange(len(blocks)), [bins for _, _, bins in blocks])
    nearest = np.abs(np.arange(len(seen))[:, None] - known[None, :]).argmin(axis=1)  # bins that nobody was in learn from there
    return Calibration(
        right=tuple(map(float, shares[nearest])),
        rows=tuple(map(float, seen)),
        block=tuple(map(int, numbers[nearest])),
        reference=wilson(int(right.sum()), int(seen.sum())),
    )


def _pooled(hits: Numbers, rows: Numbers) -> Sequence[tuple[float, float, int]]:
    """Pool adjacent violators: hits, rows and bins of each block, whose shares rise."""
    blocks: list[tuple[float, float, int]] = []
    for hit, count in zip(hits, rows, strict=True):
        block = (float(hit), float(count), 1)
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    return blocks


def estimated(calibration: Calibration, counts: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Of a window, from its counts by the same bins of confidence. The interval knows of chance in the window's rows, and in
    what was learnt from the reference's."""
    seen = np.asarray(counts, dtype=np.float64)
    rows = int(seen.sum())
    if not rows:
        unknown = Interval(at=math.nan, low=0.0, high=1.0)
        change = Interval(at=math.nan, low=-1.0, high=1.0)
        return Estimate(accuracy=unknown, reference=calibration.reference, change=change, rows=0)
    right, before, block = np.array(calibration.right), np.array(calibration.rows), np.array(calibration.block)
    now, was = seen / rows, before / before.sum()
    at, reference = float(now @ right), float(was @ right)
    learnt = np.bincount(block, weights=before)
    hits = np.bincount(block, weights=before * right)
    # One row right and one wrong more: a block without errors is not certain.
    spread = (hits + 1) * (learnt - hits + 1) / (learnt + 2) ** 2
    noise = spread / np.maximum(learnt, 1)
    z = normal_quantile((1 + confidence) / 2)
    half = z * math.sqrt(float(now @ spread[block]) / rows + float(np.bincount(block, weights=now) ** 2 @ noise))
    mixes = float(now @ (right - at) ** 2) / rows + float(was @ (right - reference) ** 2) / before.sum()
    moved = z * math.sqrt(mixes + float(np.bincount(block, weights=now - was) ** 2 @ noise))
    return Estimate(
        accuracy=Interval(at=at, low=max(0.0, at - half), high=min(1.0, at + half)),
        reference=calibration.reference,
        change=Interval(at=at - reference, low=at - reference - moved, high=at - reference + moved),
        rows=rows,
    )
