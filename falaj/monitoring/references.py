"""What an endpoint's traffic is held against: for each column its bins, and how many rows fell into each when all was well.

Once a column is settled, its reference stays as it is: no traffic, however much of it, moves what it is held against.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from falaj.base.clock import SECOND
from falaj.base.values import value
from falaj.monitoring.operations.words import Season
from falaj.monitoring.reading import read
from falaj.serving.counts import capped
from falaj.serving.states import Watch, WatchedColumn

ALWAYS: Final = ""  # the slot of what has no season
RANKS: Final = tuple(place / 20 for place in range(21))  # bins have about equally many rows
MOST_KINDS: Final = 30
LEAST_ROWS: Final = 50  # what fewer rows have may be what one person has
_PLAN: Final = "."  # in a key: what is before it is of the reference, and what follows counts its plans
_BEYOND: Final = 1e-6  # so that a number and its nearest in single precision lie on the same side of an edge made of it
_LARGEST: Final = 1e300  # of an edge: JSON has no infinity, and what is told of bins adds edges up
_SLOTS: Final = {"none": 1, "hour": 24, "week": 168}


@value
class Column:
    """`edges` are of numbers, `kinds` of texts; one that has neither is not known yet, and `sketch` gathers what is seen.
    `counts` are by slot of the season, in the order of the bins: for numbers one more than edges, for kinds each of them and
    all others; and what is missing comes last. `rows` it was learnt from, once it is `settled`, or so far."""

    name: str
    is_output: bool = False
    edges: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: int = 0
    settled: bool = False
    sketch: str = ""

    @property
    def label(self) -> str:
        """What people call it: a model may answer with what it was also given."""
        return f"prediction {self.name}" if self.is_output else self.name

    @property
    def is_known(self) -> bool:
        return bool(self.edges or self.kinds)

    @property
    def bins(self) -> int:
        return len(self.edges or self.kinds) + 2

    @property
    def ordered(self) -> int:
        """So many bins follow each other."""
        return len(self.edges) + 1 if self.edges else 0

    @property
    def told_edges(self) -> tuple[int, ...]:
        """The places of those that are of nobody: enough rows of the reference lie on either side, or are that very number."""
        rows = [sum(some[place] for some in self.counts.values()) for place in range(self.ordered)]
        upto = [*accumulate(rows)]
        alike = {
            place
            for place, (low, high) in enumerate(pairwise(self.edges), start=1)
            if rows[place] >= LEAST_ROWS and high - low <= 3 * _margin(high)
        }
        return tuple(
            place
            for place in range(len(self.edges))
            if min(upto[place], upto[-1] - upto[place]) >= LEAST_ROWS or alike & {place, place + 1}
        )

    def told_bins(self) -> list[tuple[str, range]]:
        """What people are told of, and which bins each is: those between edges that are told."""
        if not self.edges:
            return [(name, range(place, place + 1)) for place, name in enumerate([*self.kinds, "others", "missing"])]
        told = self.told_edges
        inner = [f"{self.edges[low]:.4g} to {self.edges[high]:.4g}" for low, high in pairwise(told)]
        ends = (f"below {self.edges[told[0]]:.4g}", f"above {self.edges[told[-1]]:.4g}") if told else ("any number",)
        names = [ends[0], *inner, *ends[1:], "missing"]
        limits = [0, *(place + 1 for place in told), self.ordered, self.bins]
        return [(name, range(*span)) for name, span in zip(names, pairwise(limits), strict=True)]

    def with_counts(self, slot: str, counts: Sequence[int]) -> "Column":
        known = self.counts.get(slot, (0,) * len(counts))
        added = tuple(capped(before, more) for before, more in zip(known, counts, strict=True))
        return replace(self, counts={**self.counts, slot: added}, rows=capped(self.rows, *counts))


@value
class Sample:
    """Rows of inputs, whole: what no single column shows is seen in them. `names` are of their columns; `draws` are of rows
    that came one after the other, those with the least are kept."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[float | str | None, ...], ...] = ()
    draws: tuple[float, ...] = ()


@value
class Reference:
    """Of one revision. `source` is a dataset version, or `traffic`, and `drawn_by` whoever may read that; `began` when it began
    to learn from traffic, 0 while nothing came. `key` changes whenever a column gets its bins, which it then keeps: see
    `is_of`."""

    key: str
    source: str
    columns: tuple[Column, ...]
    began: int = 0
    drawn_by: str = ""
    sample: Sample = Sample()

    @property
    def is_settled(self) -> bool:
        return bool(self.columns) and all(one.settled for one in self.columns)

    def watch(self, seconds: int, sample: int) -> Watch:
        """What planes count by."""

        def side(*, outputs: bool) -> tuple[WatchedColumn, ...]:
            of_it = (one for one in self.columns if one.is_output == outputs)
            return tuple(WatchedColumn(name=one.name, edges=one.edges, kinds=one.kinds) for one in of_it)

        return Watch(key=self.key, seconds=seconds, columns=side(outputs=False), outputs=side(outputs=True), sample=sample)


def new_key() -> str:
    return f"{secrets.token_hex(8)}{_PLAN}1"


def next_key(key: str) -> str:
    """Of the next plan by the same reference."""
    reference, _, number = key.partition(_PLAN)
    return f"{reference}{_PLAN}{int(number) + 1}"


def is_of(plan: str, key: str) -> bool:
    """Whether both are of one reference: a column that has bins by both has the same."""
    return reference_of(plan) == reference_of(key)


def reference_of(key: str) -> str:
    """What the keys of all its plans begin with."""
    return key.partition(_PLAN)[0]


def encode(reference: Reference) -> bytes:
    return msgspec.json.encode(reference)


def decode(content: bytes) -> Reference:
    return read(content, Reference, "What traffic is held against")


def edges_of(quantiles: Sequence[float]) -> tuple[float, ...]:
    """Of sorted quantiles from the least to the largest number: below the first edge and above the last is nothing, up to where
    numbers are too large for a sum."""
    there = sorted({max(-_LARGEST, min(float(one), _LARGEST)) for one in quantiles if math.isfinite(one)})
    if not there:
        return (0.0,)
    first = there[0] - _margin(there[0])
    edges = [first, *(one + _margin(one) for one in there)]
    return tuple(low for low, high in zip(edges, [*edges[1:], math.inf], strict=True) if low < high)


def _margin(number: float) -> float:
    return max(abs(number) * _BEYOND, 1e-30)


def slot_of(at: int, season: Season, timezone: str) -> str:
    """Of a moment in microseconds."""
    if season == "none":
        return ALWAYS
    local = datetime.fromtimestamp(at / SECOND, ZoneInfo(timezone))
    return f"{local.hour:02d}" if season == "hour" else f"{local.weekday()}-{local.hour:02d}"


def slots(season: Season) -> int:
    return _SLOTS[season]
