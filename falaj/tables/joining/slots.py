"""Labels in the order of their entities and moments: each has a slot, and a row of features is seen by a run of slots.

A row that becomes available at max(event, knowledge) and leaves a window at event + period is seen by the labels of its entity
from the one moment to before the other. So rows need no order of their own and can come in any pieces.
"""

from typing import Final

import numpy as np

from falaj.base.values import value
from falaj.tables.joining.arrays import EARLIEST, LATEST, Ints, Mask, order_of

_AT_ONCE: Final = 1 << 15  # what a search goes through stays in the processor's cache


class Slots:
    """`order` are the labels' rows, slot by slot; labels without an entity or moment have none."""

    def __init__(self, entities: Ints, times: Ints, valid: Mask | None, count: int) -> None:
        matching = np.flatnonzero(entities >= 0 if valid is None else (entities >= 0) & valid)
        entities, times = entities[matching], times[matching]
        order = order_of(entities, times)
        self.order: Ints = matching[order]
        self.times: Ints = times[order]
        self.entities: Ints = entities[order]
        self.starts: Ints = np.concatenate([[0], np.cumsum(np.bincount(entities, minlength=count))]).astype(np.int64)
        self.count = len(order)
        self.last_time = int(times.max()) if len(times) else EARLIEST
        self._padded = np.append(self.times, LATEST)
        self._steps = int(np.diff(self.starts).max()).bit_length() if count else 0

    def first_at(self, entities: Ints, times: Ints) -> Ints:
        """The first slot of an entity that is not before a time; the one behind its last where there is none."""
        found = np.empty(len(times), np.int64)
        for start in range(0, len(times), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found[part] = self._searched(entities[part], times[part])
        return found

    def _searched(self, entities: Ints, times: Ints) -> Ints:
        low = self.starts[entities]
        size = self.starts[entities + 1] - low
        for _ in range(self._steps):
            half = size >> 1
            middle = low + half
            before = (self._padded[middle] < times) & (size > 0)
            low = np.where(before, middle + 1, low)
            size = np.where(before, size - half - 1, half)
        return low


@value
class Seen:
    """Rows that some label sees: `rows` are their places in the block they came in, `first` the slots from which on."""

    rows: Ints
    entities: Ints
    event: Ints
    known: Ints
    first: Ints


@value
class Spans:
    """Which of the seen rows (`at`) are in a window for slots from `first` to before `past`."""

    at: Ints
    first: Ints
    past: Ints


def seen(slots: Slots, *, entities: Ints, event: Ints, known: Ints, valid: Mask | None) -> Seen:
    available = np.maximum(event, known)
    may_be = (entities >= 0) & (available <= slots.last_time)
    rows = np.flatnonzero(may_be if valid is None else may_be & valid)
    entities, available = entities[rows], available[rows]
    first = slots.first_at(entities, available)
    visible = np.flatnonzero(first < slots.starts[entities + 1])
    rows = rows[visible]
    return Seen(rows=rows, entities=entities[visible], event=event[rows], known=known[rows], first=first[visible])


def spans(slots: Slots, some: Seen, period: int | None) -> Spans:
    """A row known only when it had left the window is in it for nobody."""
    ends = slots.starts[some.entities + 1]
    if period is None:
        return Spans(at=np.arange(len(some.rows)), first=some.first, past=ends)
    forever = some.event > LATEST - period
    leaves = np.where(forever, LATEST, some.event + np.where(forever, 0, period))
    past = np.where(forever, ends, slots.first_at(some.entities, leaves))
    at = np.flatnonzero(some.first < past)
    return Spans(at=at, first=some.first[at], past=past[at])
