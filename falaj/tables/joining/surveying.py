"""Looking over a view's rows by keys and times alone: whose values are others than at an earlier moment, and how long those of
this one stay what they are."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.values import value
from falaj.tables.joining.arrays import LATEST, Ints, Mask, both, int64s, valid
from falaj.tables.joining.rows import Block, common_schema, read
from falaj.tables.joining.training_sets import Source
from falaj.tables.joining.views import View, checked


@value
class Since:
    """What was looked over before: of which moment, and so many of the pieces, which were the first then and are so now."""

    at: int
    pieces: int


@value
class Survey:
    """`entities` are the different keys, as the rows call them. `newest` is the last event that is known by the moment,
    `changes` the next moment at which some value becomes another one though no row comes: a row becomes known, or leaves a
    window."""

    entities: pa.Table
    newest: int | None
    changes: int | None


def surveyed(source: Source, *, at: int, since: Since | None = None) -> Survey:
    """All entities, or those of which anything may differ from what it was: those of later pieces, and of rows that became
    known or left a window in between. Those with a null in their key are none. Holds the keys in memory."""
    view = checked(source.view)
    names = list(dict.fromkeys([*(key.column for key in view.keys), view.event, *filter(None, [view.known])]))
    whole = common_schema(view, source.pieces)
    schema = pa.schema([whole.field(name) for name in names])
    looking = _Looking(view, pa.schema([whole.field(key.column) for key in view.keys]), at)
    for number, piece in enumerate(source.pieces):
        before = since.at if since is not None and number < since.pieces else None
        for block in read([piece], schema):
            looking.add(block, before)
    return Survey(entities=looking.found, newest=looking.newest, changes=looking.changes)


class _Looking:
    def __init__(self, view: View, keys: pa.Schema, at: int) -> None:
        self._view, self._keys, self._at = view, keys, at
        self._periods = sorted({period for one in view.features if (period := view.period_of(one)) is not None})
        self.found = keys.empty_table()
        self.newest: int | None = None
        self.changes: int | None = None

    def add(self, block: Block, before: int | None) -> None:
        table = block.table
        for name in self._keys.names:
            table = table.filter(pc.is_valid(pc.field(name)))
        event, available, usable = self._times(table, block.known)
        leaving = [_later(event, period) for period in self._periods]
        seen = both(usable, available <= self._at)
        self.newest = max(_there(self.newest, _greatest(event, seen)), default=None)
        for moments in (available, *leaving):
            self.changes = min(_there(self.changes, _least(moments, both(usable, moments > self._at))), default=None)
        if before is not None:
            turned = [(moments > before) & (moments <= self._at) for moments in (available, *leaving)]
            touched = both(usable, np.logical_or.reduce(turned))
            table = table.filter(pa.array(touched))
        some = _different(table, self._keys.names)
        self.found = _different(pa.concat_tables([self.found, some]), self._keys.names)

    def _times(self, table: pa.Table, known: int | None) -> tuple[Ints, Ints, Mask]:
        """When each row happened, when it is available, and whether it ever is."""
        event = table.column(self._view.event)
        usable, happened = valid(event), int64s(event)
        if self._view.known:
            column = table.column(self._view.known)
            usable, available = both(usable, valid(column)), np.maximum(happened, int64s(column))
        else:
            available = np.maximum(happened, 0 if known is None else known)
        return happened, available, np.ones(len(happened), np.bool_) if usable is None else usable


def _later(event: Ints, period: int) -> Ints:
    """event + period, without leaving 64 bits."""
    beyond = event > LATEST - period
    return np.where(beyond, LATEST, event + np.where(beyond, 0, period))


def _greatest(moments: Ints, some: Mask | None) -> int | None:
    chosen = moments[some]
    return int(chosen.max()) if len(chosen) else None


def _least(moments: Ints, some: Mask | None) -> int | None:
    chosen = moments[some]
    return int(chosen.min()) if len(chosen) else None


def _there(*some: int | None) -> list[int]:
    return [one for one in some if one is not None]


def _different(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """In the order in which they first appear."""
    return table.group_by(list(names), use_threads=False).aggregate([]).select(list(names))
