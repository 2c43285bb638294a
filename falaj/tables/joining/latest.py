"""The newest candidate of every label: the one with the greatest (event, knowledge, position)."""

from typing import Final

import numpy as np
import pyarrow as pa

from falaj.tables.joining.arrays import EARLIEST, Ints, records
from falaj.tables.joining.slots import Seen, Slots

_SPARE: Final = 1 << 20  # rows kept beyond two for each label before those that lost are dropped


class Latest:
    """Holds, for each slot, the newest of the rows that are seen from there on; which of them a label sees is found at the end.
    Rows must come in their order: of those that are equal in both times the later wins."""

    def __init__(self, slots: Slots, schema: pa.Schema) -> None:
        self._slots, self._schema = slots, schema
        self._event = np.full(slots.count, EARLIEST)
        self._known = np.full(slots.count, EARLIEST)
        self._kept_as = np.full(slots.count, -1)  # which of the kept rows; greater is later
        self._kept: list[pa.Table] = []
        self._kept_rows = 0

    def add(self, some: Seen, table: pa.Table) -> None:
        """`table` has the columns of the schema, for all rows of the block."""
        before = self._event[some.first]
        np.maximum.at(self._event, some.first, some.event)
        newest = self._event[some.first]
        self._known[some.first[newest > before]] = EARLIEST
        tied = np.flatnonzero(some.event == newest)
        first, known = some.first[tied], some.known[tied]
        np.maximum.at(self._known, first, known)
        won = known == self._known[first]
        np.maximum.at(self._kept_as, first[won], self._kept_rows + some.rows[tied[won]])
        self._kept.append(table.select(self._schema.names))
        self._kept_rows += table.num_rows
        if self._kept_rows > 2 * self._slots.count + _SPARE:
            self._drop_losers()

    def finish(self) -> tuple[Ints, Ints]:
        """For each slot the row of `kept` that is its newest candidate, -1 where it has none, and that row's event."""
        best = self._best_slots()
        some = np.maximum(best, 0)
        if not self._slots.count:
            return best, best
        return np.where(best < 0, -1, self._kept_as[some]), self._event[some]

    def kept(self) -> pa.Table:
        return pa.concat_tables(self._kept).combine_chunks() if self._kept else self._schema.empty_table()

    def _best_slots(self) -> Ints:
        """The slot that holds what is newest for a slot: rows that are older than one seen before are nobody's newest. Those
        that are equal in both times have the same slot, where the later has won already."""
        held = np.flatnonzero(self._kept_as >= 0)
        group = self._slots.entities[held]
        held = held[records(group, self._event[held])]
        group = _numbered(self._slots.entities[held], self._event[held])
        held = held[records(group, self._known[held])]
        best = np.full(self._slots.count, -1)
        best[held] = held
        best = np.maximum.accumulate(best) if len(best) else best
        return np.where(best < self._slots.starts[self._slots.entities], -1, best)

    def _drop_losers(self) -> None:
        held = np.flatnonzero(self._kept_as >= 0)
        winners, places = np.unique(self._kept_as[held], return_inverse=True)
        self._kept = [pa.concat_tables(self._kept).take(pa.array(winners))]
        self._kept_as[held] = places
        self._kept_rows = len(winners)


def _numbered(groups: Ints, values: Ints) -> Ints:
    """Neighbours with the same group and value get the same number, ascending."""
    if not len(groups):
        return groups
    changes = (groups[1:] != groups[:-1]) | (values[1:] != values[:-1])
    return np.concatenate([[0], np.cumsum(changes)]).astype(np.int64)
