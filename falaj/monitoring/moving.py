"""How far the numbers of a column moved, in its own unit and as far as its bins tell. Pure.

Outer bins have no end, or one that a single extreme made: that rows lie in them is known, and how far out is not, and that
extreme may be somebody's. So nothing is told of within them, and nothing of within a bin that both medians lie in.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from falaj.base.values import value
from falaj.monitoring.references import Column
from falaj.statistics.distances import wasserstein_of_counts

_OUTER: Final = 0.075  # of the reference's rows at most, on either side: bins have a twentieth each
_FEW: Final = 0.02  # of the rows, more than the reference has in its outer bins: they change a mean little


@value
class Body:
    """The bins in between, from `first` to `last`; none where `last` is before `first`."""

    first: int
    last: int


def body(column: Column, usual: Sequence[int]) -> Body:
    there = np.asarray(usual[: column.ordered], dtype=np.float64) / max(1, sum(usual[: column.ordered]))
    below, above = np.cumsum(there), np.cumsum(there[::-1])[::-1]
    told = set(column.told_edges)
    inner = [
        place
        for place in range(1, len(column.edges))
        if below[place] > _OUTER and above[place] > _OUTER and {place - 1, place} <= told
    ]
    return Body(first=min(inner), last=max(inner)) if inner else Body(first=1, last=0)


def median_words(column: Column, usual: Sequence[int], seen: Sequence[int]) -> str:
    """Empty where it did not leave its bin."""
    inner, place = body(column, usual), place_of(column, seen, 0.5)
    before, after = quantile(column, usual, 0.5), quantile(column, seen, 0.5)
    if before is None or place == place_of(column, usual, 0.5):
        return ""
    if after is not None and inner.first <= place <= inner.last:
        return f"its median moved from {before:.4g} to {after:.4g}"
    told = column.told_edges
    if place < inner.first:
        way, edge = "below", column.edges[max(place, told[0])]
    else:
        way, edge = "beyond", column.edges[min(place - 1, told[-1])]
    least = f" (by at least {abs(edge - before):.3g})" if f"{edge:.4g}" != f"{before:.4g}" else ""
    return f"its median moved from {before:.4g} to {way} {edge:.4g}{least}"


def mean_words(column: Column, usual: Sequence[int], seen: Sequence[int]) -> str:
    """Empty where bins do not tell."""
    inner = body(column, usual)
    if inner.last <= inner.first:
        return ""
    edges = column.edges[inner.first - 1 : inner.last + 1]
    first, second = _folded(column, usual, inner), _folded(column, seen, inner)
    far = wasserstein_of_counts(first, second, edges, edges[0], edges[-1])
    more = max(second[end] / sum(second) - first[end] / sum(first) for end in (0, -1))
    return f"its values moved by {'at least' if more > _FEW else 'about'} {far:.3g} on average"


def quantile(column: Column, counts: Sequence[int], rank: float) -> float | None:
    """Of the values that are there, taken to lie evenly within their bin; None where there is none, or it lies beyond all
    edges that are told."""
    there = np.asarray(counts[: column.ordered], dtype=np.float64)
    if there.sum() <= 0:
        return None
    upto, place = np.cumsum(there) / there.sum(), place_of(column, counts, rank)
    if not {place - 1, place} <= set(column.told_edges):
        return None
    low, high, below = column.edges[place - 1], column.edges[place], upto[place - 1]
    return float(low + (high - low) * (rank - below) / (upto[place] - below))


def place_of(column: Column, counts: Sequence[int], rank: float) -> int:
    """The bin that a quantile lies in; there are values."""
    upto = np.cumsum(np.asarray(counts[: column.ordered], dtype=np.float64))
    return int(np.searchsorted(upto / upto[-1], rank))


def _folded(column: Column, counts: Sequence[int], inner: Body) -> tuple[int, ...]:
    """What lies outside, as one bin on either side."""
    first, last = inner.first, inner.last
    return sum(counts[:first]), *counts[first : last + 1], sum(counts[last + 1 : column.ordered])
