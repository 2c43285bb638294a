"""Whether rows come from where others came from, all features together: a classifier is taught to tell them apart on one half
of the rows, and if it can on the other half, they differ. Finds what no single feature shows, as two that go together no more.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.base.values import value
from falaj.statistics.distributions import normal_quantile
from falaj.statistics.ranks import area

Numbers = NDArray[np.float64]
_FARTHEST: Final = 4.0  # spreads from the middle: beyond, a number weighs no more
_PAIRED: Final = 20  # leading features of which each two are multiplied
_HELD_BACK: Final = 0.1  # how strongly weights are held at nought, for each row
_STEPS: Final = 3
_KEPT: Final = 5  # columns that the classifier is given
_HUGE: Final = 1e100  # as far as numbers are told apart
_SURE: Final = 3.0  # standard deviations that a reference is taken to be off by, at least: one in 700 is off by more
FEWEST: Final = 20  # rows on either side


@value
class Told:
    """`area` is how often a later row was put above an earlier one, 0.5 where they cannot be told apart; `chance` how often, at
    most, rows from one source would be told apart as well. `importance` is how much of the area each feature is needed for."""

    area: float
    chance: float
    importance: tuple[float, ...]


@value
class _Columns:
    """What the classifier sees, and which one or two features each column of it is made of."""

    numbers: Numbers
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def told_apart(reference: ArrayLike, seen: ArrayLike, *, seed: int = 0) -> Told:
    """Of two matrices of rows with the same features, kinds being one column each; NaN is what is missing. With fewer than
    `FEWEST` rows on either side nothing is told."""
    first, second = np.asarray(reference, dtype=np.float64), np.asarray(seen, dtype=np.float64)
    features = first.shape[1]
    if min(len(first), len(second)) < FEWEST or not features:
        return Told(area=0.5, chance=1.0, importance=(0.0,) * features)
    later = np.repeat([False, True], [len(first), len(second)])
    columns = _columns(np.concatenate([first, second]))
    random = np.random.default_rng(seed)
    taught = np.zeros(len(later), dtype=bool)
    for side in (False, True):
        rows = random.permutation(np.flatnonzero(later == side))
        taught[rows[: len(rows) // 2]] = True
    weights = _taught(columns.numbers[taught], later[taught])
    parts = columns.numbers[~taught] * weights
    judged = later[~taught]
    said = parts.sum(axis=1)
    found = area(said, judged)
    importance = [0.0] * features
    for feature in {int(one) for used in (columns.first, columns.second) for one in used[weights != 0]}:
        own = (columns.first == feature) | (columns.second == feature)
        importance[feature] = max(0.0, found - area(said - parts[:, own].sum(axis=1), judged))
    return Told(area=found, chance=_chance(found, said, judged), importance=tuple(importance))


def _chance(found: float, said: Numbers, judged: NDArray[np.bool_]) -> float:
    """By the rank test of Mann, Whitney and Wilcoxon, one-sided: rows that nobody was taught by come in any order alike. The
    reference's are the same each time, and what is only their noise comes back each time: it is not averaged with that of the
    new rows, but taken off before what is left is held against theirs alone."""
    above, rows = int(judged.sum()), len(judged)
    below = rows - above
    ties = np.unique(said, return_counts=True)[1].astype(np.float64)
    spread = (rows + 1 - float((ties**3 - ties).sum()) / (rows * (rows - 1))) / (12 * above * below)
    if spread <= 0:
        return 1.0
    kept, fresh = math.sqrt(spread * above / rows), math.sqrt(spread * below / rows)
    # As many standard deviations are taken off for the reference as the new rows are then beyond, and never fewer than `_SURE`.
    far = min((found - 0.5) / (kept + fresh), (found - 0.5 - _SURE * kept) / fresh)
    return math.erfc(far / math.sqrt(2)) / 2


def _columns(rows: Numbers) -> _Columns:
    """Each feature from its middle, by its spread; whether it is missing; its square; and products of each two."""
    missing = np.isnan(rows)
    known = np.clip(rows, -_HUGE, _HUGE)
    plain = np.zeros(rows.shape)
    for feature in np.flatnonzero(~missing.all(axis=0)):
        numbers = known[:, feature]
        low, middle, high = np.nanquantile(numbers, [0.25, 0.5, 0.75])
        spread = (high - low) / (2 * normal_quantile(0.75)) or float(np.nanstd(numbers))
        plain[:, feature] = np.clip(np.nan_to_num((numbers - middle) / max(spread, 1 / _HUGE)), -_FARTHEST, _FARTHEST)
    every = np.arange(rows.shape[1])
    gaps = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0))
    one, other = np.triu_indices(min(_PAIRED, rows.shape[1]), k=1)
    made = np.concatenate([plain, plain**2, missing[:, gaps].astype(np.float64), plain[:, one] * plain[:, other]], axis=1)
    first, second = np.concatenate([every, every, gaps, one]), np.concatenate([every, every, gaps, other])
    spreads = made.std(axis=0)
    moving = spreads > 1e-9
    return _Columns(
        numbers=(made[:, moving] - made[:, moving].mean(axis=0)) / spreads[moving], first=first[moving], second=second[moving]
    )


def _taught(numbers: Numbers, later: NDArray[np.bool_]) -> Numbers:
    """Logistic regression on the columns whose means differ most, its weights held back, in a few of Newton's steps. All of
    them together would drown what one shows in the noise of hundreds."""
    apart = np.abs(numbers[later].mean(axis=0) - numbers[~later].mean(axis=0))
    kept = np.argsort(-apart, kind="stable")[:_KEPT]
    rows, chosen = len(later), numbers[:, kept]
    weights, base = np.zeros(len(kept)), math.log(later.sum() / (~later).sum())
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(base + chosen @ weights, -30, 30)))
        slope = chosen.T @ (later - chances) - _HELD_BACK * rows * weights
        bend = (chosen * (chances * (1 - chances))[:, None]).T @ chosen + _HELD_BACK * rows * np.eye(len(kept))
        weights = weights + np.linalg.solve(bend, slope)
    found = np.zeros(numbers.shape[1])
    found[kept] = weights
    return found
