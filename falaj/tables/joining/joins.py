"""One view joined with some labels: rows are taken block by block, whatever their order; labels stay in memory."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from falaj.tables.joining.arrays import Ints, Mask, both, int64s, valid
from falaj.tables.joining.keys import Entities, comparable
from falaj.tables.joining.latest import Latest
from falaj.tables.joining.rows import Block
from falaj.tables.joining.slots import Seen, Slots, seen, spans
from falaj.tables.joining.views import Feature, Function, View
from falaj.tables.joining.windows import Found, Window, result_type

_Windowed = tuple[str, int | None]  # a column and a period


class Labels:
    """Some labels as one view looks at them: whose they are and of which moments. Views with the same keys share it."""

    def __init__(self, keys: Sequence[pa.ChunkedArray], times: pa.ChunkedArray) -> None:
        self.key_types = [key.type for key in keys]
        self.entities = Entities(keys)
        self.slots = Slots(self.entities.codes, int64s(times), valid(times), self.entities.count)
        self.count = len(times)


class ViewJoin:
    """Made for one pass over the rows. `schema` are the types of the view's columns."""

    def __init__(self, view: View, labels: Labels, schema: pa.Schema) -> None:
        self._view, self._labels, self._schema = view, labels, schema
        kept = dict.fromkeys(feature.column for feature in view.features if feature.function == "last")
        self._latest = Latest(labels.slots, pa.schema([schema.field(name) for name in kept])) if kept else None
        self._grouped: dict[_Windowed, list[Feature]] = {}
        for feature in view.features:
            if feature.function != "last":
                self._grouped.setdefault((feature.column, view.period_of(feature)), []).append(feature)
        self._windows = {group: self._window(group[0], features) for group, features in self._grouped.items()}

    def add(self, block: Block) -> None:
        some = self._seen(block)
        if not len(some.rows):
            return
        if self._latest is not None:
            self._latest.add(some, block.table)
        for period in {period for _, period in self._windows}:
            window = spans(self._labels.slots, some, period)
            for (_, other), gathered in self._windows.items():
                if other == period:
                    gathered.add(some, window, block.table)

    def finish(self) -> dict[str, pa.Array]:
        """The features in the order of the labels."""
        found = self._lasts() if self._latest is not None else {}
        for group, window in self._windows.items():
            features = self._grouped[group]
            columns: dict[Function, Found] = window.finish(features=[feature.name for feature in features])
            for feature in features:
                found[feature.name] = columns[feature.function].for_labels(self._labels.slots, self._labels.count)
        return {feature.name: found[feature.name] for feature in self._view.features}

    def _seen(self, block: Block) -> Seen:
        table, view = block.table, self._view
        keys = zip(view.keys, self._labels.key_types, strict=True)
        entities = self._labels.entities.find([comparable(table.column(key.column), kind) for key, kind in keys])
        event = table.column(view.event)
        usable, happened = valid(event), int64s(event)
        if view.known:
            known = int64s(table.column(view.known))
            usable = both(usable, valid(table.column(view.known)))
        else:
            assert block.known is not None  # nosec B101 - `common_schema` saw to it
            known = np.full(len(happened), block.known)
        return seen(self._labels.slots, entities=entities, event=happened, known=known, valid=usable)

    def _lasts(self) -> dict[str, pa.Array]:
        assert self._latest is not None  # nosec B101 - asked before
        slots, found = self._labels.slots, {}
        newest, event = self._latest.finish()
        kept = self._latest.kept()
        taken: dict[int | None, pa.Array] = {}
        for feature in self._view.features:
            if feature.function != "last":
                continue
            period = self._view.period_of(feature)
            if period not in taken:
                rows = np.full(self._labels.count, -1)
                rows[slots.order] = newest if period is None else np.where(_within(event, slots.times, period), newest, -1)
                taken[period] = pa.array(rows, mask=rows < 0)
            found[feature.name] = _one_array(kept.column(feature.column).take(taken[period]))
        return found

    def _window(self, name: str, features: Sequence[Feature]) -> Window:
        kind = self._schema.field(name).type if name else pa.null()
        return Window(self._labels.slots, name=name, kind=kind, functions={feature.function for feature in features})


def result_fields(view: View, schema: pa.Schema) -> list[pa.Field]:
    """What a view adds to its labels. Raises `Invalid` for features that cannot be."""
    fields = []
    for feature in view.features:
        kind = schema.field(feature.column).type if feature.column else pa.null()
        fields.append(pa.field(feature.name, result_type(feature.function, kind, feature=feature.name)))
    return fields


def _within(event: Ints, times: Ints, period: int) -> Mask:
    """event > time - period, without leaving 64 bits; no event is later than its label's time."""
    return times.view(np.uint64) - event.view(np.uint64) < np.uint64(period)


def _one_array(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column.chunk(0) if column.num_chunks == 1 else column
