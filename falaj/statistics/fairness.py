"""How differently a model treats groups of rows: the largest gap of each figure, with intervals that hold for whichever two
groups it is found between."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from falaj.base.values import value
from falaj.statistics.distributions import normal_quantile
from falaj.statistics.intervals import Interval, wilson
from falaj.statistics.quality import mae, rmse

Counts = Mapping[str, tuple[int, int]]  # by group: hits, and rows


@value
class Gap:
    """`difference` is by how much the figure of `highest` exceeds that of `lowest`; `ratio` is the lower over the higher. Their
    intervals are of all pairs: two groups with few rows may be farther apart than those two, and `farthest` may be the most.
    `shares` are those of all groups; `left_out` names the groups that have too few rows to be judged."""

    figure: str
    lowest: str
    highest: str
    difference: Interval
    ratio: Interval
    farthest: tuple[str, str]
    shares: Mapping[str, Interval]
    left_out: Sequence[str] = ()


def gaps(
    predicted: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, positive: object, least: int = 50, confidence: float = 0.95
) -> tuple[Gap, ...]:
    """Of how many are selected (predicted `positive`), of how many of those that truly are so are recognised, and of accuracy.
    A figure that fewer than two groups have rows enough for has no gap."""
    said, true, names = np.asarray(predicted), np.asarray(truth), np.asarray(groups).astype(str)
    selected, really = said == positive, true == positive
    every = np.ones(len(names), dtype=bool)
    figures = {"selected": (selected, every), "recognised": (selected, really), "right": (said == true, every)}
    found = []
    for figure, (hits, among) in figures.items():
        counts = {
            str(name): (int((hits & among & (names == name)).sum()), int((among & (names == name)).sum()))
            for name in np.unique(names)
        }
        gap = gap_of_counts(figure, counts, least=least, confidence=confidence)
        found += [gap] if gap else []
    return tuple(found)


@value
class ErrorGap:
    """`difference` is by how much the figure of `highest` exceeds that of `lowest`, its interval that of all pairs."""

    figure: str
    lowest: str
    highest: str
    difference: Interval
    left_out: Sequence[str] = ()


def gaps_of_errors(
    predicted: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, least: int = 50, confidence: float = 0.95
) -> tuple[ErrorGap, ...]:
    """Of numbers: by how much more one group's are off. None of fewer than two groups with rows enough."""
    said, true, names = np.asarray(predicted), np.asarray(truth), np.asarray(groups).astype(str)
    among = {str(name): names == name for name in np.unique(names)}
    judged = [name for name, mine in among.items() if mine.sum() >= max(2, least)]
    left_out, found = tuple(name for name in among if name not in judged), []
    sure = 1 - (1 - confidence) / max(1.0, len(judged) * (len(judged) - 1) / 2)
    for figure, errors in {"RMSE": rmse, "MAE": mae}.items():
        told = {name: errors(said[among[name]], true[among[name]], sure) for name in judged}
        ordered = sorted((name for name in judged if math.isfinite(told[name].at)), key=lambda name: told[name].at)
        if len(ordered) > 1:
            difference, _ = _difference([told[name] for name in ordered])
            found.append(
                ErrorGap(figure=figure, lowest=ordered[0], highest=ordered[-1], difference=difference, left_out=left_out)
            )
    return tuple(found)


def gap_of_counts(figure: str, counts: Counts, *, least: int = 50, confidence: float = 0.95) -> Gap | None:
    """Of counts, which windows can be added up to."""
    judged = {name: seen for name, seen in sorted(counts.items()) if seen[1] >= max(1, least)}
    if len(judged) < 2:
        return None
    names = sorted(judged, key=lambda name: judged[name][0] / judged[name][1])
    pairs = len(names) * (len(names) - 1) / 2  # any of them might be the farthest apart
    sure = 1 - (1 - confidence) / pairs
    hits, rows = np.array([judged[name] for name in names], dtype=np.float64).T
    difference, (low, high) = _difference([wilson(*judged[name], sure) for name in names])
    return Gap(
        figure=figure,
        lowest=names[0],
        highest=names[-1],
        difference=difference,
        ratio=_ratio(hits, rows, sure),
        farthest=(names[low], names[high]),
        shares={name: wilson(*seen, confidence) for name, seen in judged.items()},
        left_out=tuple(sorted(set(counts) - set(judged))),
    )


def _difference(shares: Sequence[Interval]) -> tuple[Interval, tuple[int, int]]:
    """The largest of figures in their order, by Newcombe's interval of each pair: it is as large as that of any pair for sure,
    and not larger than that of any pair may be. With it, the pair that may be the farthest apart."""
    at, low, high = (np.array([getattr(one, name) for one in shares]) for name in ("at", "low", "high"))
    apart = at[:, None] - at
    least = apart - np.hypot((at - low)[:, None], high - at)
    most = apart + np.hypot((high - at)[:, None], at - low)
    np.fill_diagonal(least, -math.inf)
    np.fill_diagonal(most, -math.inf)
    upper, lower = divmod(int(np.argmax(most)), len(at))
    return Interval(at=float(at[-1] - at[0]), low=float(least.max()), high=float(most.max())), (lower, upper)


def _ratio(hits: NDArray[np.float64], rows: NDArray[np.float64], confidence: float) -> Interval:
    """The smallest of shares in their order, by the logarithm. Half a row more of each makes it one of numbers where nothing
    was hit."""
    shares, more, all_ = hits / rows, hits + 0.5, rows + 0.5
    spread = 1 / more - 1 / all_
    middle = np.log(more / all_)
    half = normal_quantile((1 + confidence) / 2) * np.sqrt(np.maximum(0.0, spread[:, None] + spread))
    least, most = (np.exp(middle[:, None] - middle + sign * half) for sign in (-1, 1))
    least[hits == 0] = 0.0
    np.fill_diagonal(least, math.inf)
    np.fill_diagonal(most, math.inf)
    at = shares[0] / shares[-1] if hits[-1] else math.nan
    return Interval(at=float(at), low=float(least.min()), high=float(most.min()))
