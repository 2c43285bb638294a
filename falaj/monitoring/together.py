"""Rows of all inputs together, held against rows of the reference: finds what no single column shows. Pure.

Rows are sampled, a few of each window, so they are told apart once there are enough. Half of the false alarms that a monitor
may give are left for this, and half for its columns; each time brings one less often than once in twice as many windows as the
monitor allows, so that both together keep what was promised. With a season it is not done: a day's rows are not an hour's.
"""

import heapq
from collections.abc import Sequence
from typing import Final

from falaj.base.values import value
from falaj.monitoring.checking import Apart, rows_apart
from falaj.monitoring.deciding import Rule
from falaj.monitoring.drawing import most_sampled
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.pieces import Cell, Merged, rows_of
from falaj.monitoring.references import Column, Reference, Sample
from falaj.statistics.two_samples import FEWEST
from falaj.tables.orders import Surveyed

ENOUGH: Final = 300  # rows, to be told apart from the reference's
MOST_WINDOWS: Final = 60
_FEWEST_REFERENCE: Final = 100


@value
class Together:
    """What is kept between windows: how many `rows` were sampled in how many `windows` since rows were last told apart, and
    what came out then. Numbers and names of columns alone."""

    windows: int = 0
    rows: int = 0
    last: Apart | None = None


NOTHING_YET: Final = Together()


def rules(wishes: Wishes) -> tuple[Rule, Rule | None]:
    """For columns, and for rows together; the second is none with a season."""
    if wishes.season != "none":
        return Rule(floor=wishes.floor, one_in=wishes.one_in), None
    half = Rule(floor=wishes.floor, one_in=2 * wishes.one_in)
    return half, half


def due(before: Together, window: Merged, reference: Reference) -> int:
    """How many windows, this one included, have enough rows to be told apart; 0: they have not, or there is nothing to hold
    them against."""
    if len(reference.sample.rows) < _FEWEST_REFERENCE or not _columns(reference):
        return 0
    windows = before.windows + 1
    rows = before.rows + len(window.sampled)
    return windows if rows >= ENOUGH or (windows >= MOST_WINDOWS and rows >= FEWEST) else 0


def waited(before: Together, window: Merged) -> Together:
    """After a window in which nothing was told apart. What lies too far back is let go."""
    if before.windows + 1 >= MOST_WINDOWS:
        return Together(last=before.last)
    return Together(windows=before.windows + 1, rows=before.rows + len(window.sampled), last=before.last)


def told(reference: Reference, windows: Sequence[Merged], rule: Rule) -> Together:
    """What no row has a value of tells nothing: it may be kept to itself by the endpoint, and is seen to by its own if it is
    missing."""
    every = _columns(reference)
    sampled = [row for window in windows for row in rows_of(window, [one.name for one in every])]
    columns = [one for place, one in enumerate(every) if any(row[place] is not None for row in sampled)]
    names = [one.name for one in columns]
    places = [reference.sample.names.index(name) for name in names]
    usual = [tuple(row[place] for place in places) for row in reference.sample.rows]
    seen = [row for window in windows for row in rows_of(window, names)]
    return Together(last=rows_apart(columns, _surveyed(names, usual), _surveyed(names, seen), rule))


def _columns(reference: Reference) -> list[Column]:
    return [one for one in reference.columns if one.settled and not one.is_output and one.name in reference.sample.names]


def _surveyed(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> dict[str, Surveyed]:
    return {name: Surveyed(sampled=tuple(row[place] for row in rows)) for place, name in enumerate(names)}


def gathered(reference: Reference, window: Merged, wishes: Wishes) -> Sample:
    """The reference's rows after one more window that it learns from: those with the least draws of all that were sampled. Once
    an input is settled they are what they are."""
    before = reference.sample
    if reference.drawn_by or any(one.settled and not one.is_output for one in reference.columns):
        return before
    inputs = tuple(name for name, is_output in window.order if not is_output and name not in wishes.ignore)
    names = before.names or inputs
    if not names:
        return before
    more = rows_of(window, names)
    if len(more) != len(window.sampled):  # something in it is no row: a plane that lies teaches nothing
        return before
    both = [*zip(before.draws, before.rows, strict=True), *zip((one.draw for one in window.sampled), more, strict=True)]
    kept = heapq.nsmallest(most_sampled(len(names)), both, key=lambda one: one[0])
    return Sample(names=names, rows=tuple(row for _, row in kept), draws=tuple(draw for draw, _ in kept))
