"""How differently a model treats groups of rows: the largest gap of each figure, with intervals that hold for whichever two
groups it is found between."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from falaj.base.values import value
from falaj.statistics.distributions import normal_quantile
from falaj.statistics.intervals import Interval, wilson

Counts = Mapping[str, tuple[int, int]]  # by group: hits, and rows


@value
class Gap:
    """`difference` is by how much the figure of `highest` exceeds that of `lowest`; `ratio` is the lower over the higher.
    `shares` are those of all groups; `left_out` names the groups that have too few rows to be judged."""

    figure: str
    lowest: str
    highest: str
    difference: Interval
    ratio: Interval
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


def gap_of_counts(figure: str, counts: Counts, *, least: int = 50, confidence: float = 0.95) -> Gap | None:
    """Of counts, which windows can be added up to."""
    judged = {name: seen for name, seen in sorted(counts.items()) if seen[1] >= max(1, least)}
    if len(judged) < 2:
        return None
    lowest, *_, highest = sorted(judged, key=lambda name: judged[name][0] / judged[name][1])
    pairs = len(judged) * (len(judged) - 1) / 2  # any of them might have been the farthest apart
    sure = 1 - (1 - confidence) / pairs
    return Gap(
        figure=figure,
        lowest=lowest,
        highest=highest,
        difference=_difference(judged[highest], judged[lowest], sure),
        ratio=_ratio(judged[lowest], judged[highest], sure),
        shares={name: wilson(*seen, confidence) for name, seen in judged.items()},
        left_out=tuple(sorted(set(counts) - set(judged))),
    )


def _difference(first: tuple[int, int], second: tuple[int, int], confidence: float) -> Interval:
    """Of two shares: Newcombe's, from Wilson's intervals of each."""
    one, other = wilson(*first, confidence), wilson(*second, confidence)
    at = one.at - other.at
    low = at - math.hypot(one.at - one.low, other.high - other.at)
    return Interval(at=at, low=low, high=at + math.hypot(one.high - one.at, other.at - other.low))


def _ratio(first: tuple[int, int], second: tuple[int, int], confidence: float) -> Interval:
    """Of two shares, by the logarithm. Half a row more of each makes it one of numbers where nothing was hit."""
    (hits, rows), (other_hits, other_rows) = first, second
    at = (hits / rows) / (other_hits / other_rows) if other_hits else math.nan
    spread = 1 / (hits + 0.5) - 1 / (rows + 0.5) + 1 / (other_hits + 0.5) - 1 / (other_rows + 0.5)
    middle = math.log((hits + 0.5) / (rows + 0.5) * (other_rows + 0.5) / (other_hits + 0.5))
    half = normal_quantile((1 + confidence) / 2) * math.sqrt(max(0.0, spread))
    return Interval(at=at, low=0.0 if not hits else math.exp(middle - half), high=math.exp(middle + half))
