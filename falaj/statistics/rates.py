"""Whether something happens more often on one side than on the other, as counts grow and somebody looks all the time.

Each side's counts are explained by a mixture of all rates (Jeffreys'), and that is held against the rates of the claim under
test that explain them best. Whatever the rates are, as long as the claim holds, the ratio ever passes `x` in one of `x` cases
at most, however often and whenever one looks: it is a function of the counts so far alone. A row may count in part, as a loss
between 0 and 1 does: then rates are means, and the same holds, for what happens or not spreads most of all such numbers.
"""

import math
from typing import Final

_HALVINGS: Final = 60


def evidence_of_more(hits: float, rows: int, other_hits: float, other_rows: int, margin: float = 0.0) -> float:
    """The logarithm of how strongly counts speak against the first rate being at most `margin` above the other: beyond
    log(1000), one in a thousand that look for ever would see it where it is not. Only rows of both sides say anything."""
    hits, other_hits = min(hits, rows), min(other_hits, other_rows)
    if not rows or not other_rows or hits / rows - other_hits / other_rows <= margin:
        return 0.0
    best = _best_within(hits, rows, other_hits, other_rows, margin)
    return max(0.0, mixed(rows, hits) + mixed(other_rows, other_hits) - best)


def evidence_above(hits: float, rows: int, level: float) -> float:
    """The same, against the rate being at most `level`."""
    hits = min(hits, rows)
    if not rows or hits / rows <= level:
        return 0.0
    return max(0.0, mixed(rows, hits) - _explained(hits, rows, level))


def least_excess(hits: float, rows: int, other_hits: float, other_rows: int, wanted: float) -> float:
    """By how much the first rate is above the other at least, with evidence of `wanted`; -1 where nothing is known."""
    low, high = -1.0, 1.0
    if not rows or not other_rows:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shown = evidence_of_more(hits, rows, other_hits, other_rows, middle) >= wanted
        low, high = (middle, high) if shown else (low, middle)
    return low


def mixed(rows: float, total: float) -> float:
    """The logarithm of how likely such counts are, over all rates alike."""
    return math.lgamma(total + 0.5) + math.lgamma(rows - total + 0.5) - math.lgamma(rows + 1) - math.log(math.pi)


def _best_within(hits: float, rows: int, other_hits: float, other_rows: int, margin: float) -> float:
    """By the best two rates that are `margin` apart: the likelihood has one top along that line."""
    low, high = max(0.0, -margin), min(1.0, 1.0 - margin)

    def likely(rate: float) -> float:
        return _explained(hits, rows, rate + margin) + _explained(other_hits, other_rows, rate)

    def rises(rate: float) -> bool:
        first, second = rate + margin, rate
        slope = (hits - rows * first) / max(first * (1 - first), 1e-300)
        return slope + (other_hits - other_rows * second) / max(second * (1 - second), 1e-300) > 0

    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return max(likely(low), likely(high))


def _explained(hits: float, rows: int, rate: float) -> float:
    """The logarithm of how likely the counts are at this rate."""
    parts = ((hits, rate), (rows - hits, 1 - rate))
    return sum(count * math.log(max(chance, 1e-300)) for count, chance in parts if count)
