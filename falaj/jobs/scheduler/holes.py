"""What the free part of a card is worth, by the parts that are usually asked for.

Cards are bins, parts are items: the cutting-stock problem. The prices of its linear relaxation (Gilmore and Gomory, 1961)
say how much of a card each size takes up once neighbours that fit beside it are counted, and so what a hole can still hold.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from falaj.jobs.scheduler.values import CARD

STEP: Final = 10  # sizes are told apart to a hundredth of a card
UNITS: Final = CARD // STEP
_ROUNDS: Final = 400
_SLACK: Final = 1e-9
_GRAIN: Final = 1 << 20

Numbers = NDArray[np.float64]


class Cutting:
    """Prices for one mix of sizes after another: a mix that changed a little starts from the last one's patterns."""

    def __init__(self) -> None:
        self._sizes: tuple[int, ...] = ()
        self._basis: Numbers = np.zeros((0, 0))

    def worth(self, demand: Mapping[int, float]) -> Numbers:
        """By thousandths of a card that are free: what they are worth in cards. `demand` counts parts by thousandths asked.

        Where nothing is known of parts, every thousandth is worth the same.
        """
        by_units: dict[int, float] = {}
        for milli, count in demand.items():
            units = -(-milli // STEP)
            if 0 < units < UNITS and count > 0:
                by_units[units] = by_units.get(units, 0) + count
        if not by_units:
            return exactly(np.arange(CARD + 1) / CARD)
        sizes = tuple(sorted(by_units))
        prices = self._prices(sizes, np.array([by_units[units] for units in sizes], float))
        worth = np.repeat(_fill(sizes, prices)[0], STEP)[: CARD + 1]
        worth[CARD] = 1.0
        return exactly(worth)

    def _prices(self, sizes: tuple[int, ...], demand: Numbers) -> Numbers:
        """1 start from patterns that cover the demand, 2 price the sizes by them, 3 bring in the pattern that is worth more
        than a card at these prices, until there is none."""
        basis = self._start(sizes, demand)
        prices: Numbers = np.linalg.solve(basis.T, np.ones(len(sizes))).astype(float)
        for _ in range(_ROUNDS):
            worth, last = _fill(sizes, prices)
            if worth[UNITS] <= 1 + _SLACK:
                break
            pattern = _pattern(sizes, last)
            used, change = np.linalg.solve(basis, np.stack([demand, pattern], axis=1)).T
            ratios = np.full(len(sizes), np.inf)
            np.divide(np.maximum(used, 0), change, out=ratios, where=change > _SLACK)
            basis[:, int(np.argmin(ratios))] = pattern
            prices = np.linalg.solve(basis.T, np.ones(len(sizes))).astype(float)
        self._sizes, self._basis = sizes, basis
        return prices.clip(min=0)

    def _start(self, sizes: tuple[int, ...], demand: Numbers) -> Numbers:
        if sizes == self._sizes and np.all(np.linalg.solve(self._basis, demand) >= 0):
            return self._basis
        return np.diag([float(UNITS // units) for units in sizes])


def exactly(worth: Numbers) -> Numbers:
    """To the nearest of numbers whose sums are exact: what costs the same must not differ by the order of adding."""
    return np.round(worth * _GRAIN) / _GRAIN


def _fill(sizes: tuple[int, ...], prices: Numbers) -> tuple[Numbers, list[int]]:
    """The best filling of every hole up to a whole card, and the size that went into it last (-1: a unit stays empty)."""
    worth = [0.0] * (UNITS + 1)
    last = [-1] * (UNITS + 1)
    priced = [(units, float(price), place) for place, (units, price) in enumerate(zip(sizes, prices, strict=True)) if price > 0]
    for hole in range(1, UNITS + 1):
        best, chosen = worth[hole - 1], -1
        for units, price, place in priced:
            if units > hole:
                break
            if (filled := worth[hole - units] + price) > best:
                best, chosen = filled, place
        worth[hole], last[hole] = best, chosen
    return np.array(worth), last


def _pattern(sizes: tuple[int, ...], last: list[int]) -> Numbers:
    """How often each size is in the best filling of a whole card."""
    pattern = np.zeros(len(sizes))
    hole = UNITS
    while hole > 0:
        place = last[hole]
        if place < 0:
            hole -= 1
        else:
            pattern[place] += 1
            hole -= sizes[place]
    return pattern
