"""Feature values of entities at one moment, for the online store: the training set whose labels are one of each entity, so that
every value has the same bits as in a training set of that moment."""

from collections.abc import Iterator

import pyarrow as pa

from falaj.tables.joining.rows import common_schema
from falaj.tables.joining.surveying import surveyed
from falaj.tables.joining.training_sets import MEMORY, Source, training_set
from falaj.tables.joining.views import checked
from falaj.tables.moments import MOMENT

_AT = "at"


def materialised(source: Source, *, at: int, entities: pa.Table | None = None, memory: int = MEMORY) -> Iterator[pa.Table]:
    """Tables of the view's key columns (as its rows call them) and its features; `at` are microseconds UTC. Of all entities, or
    of some that were surveyed. One of which nothing is known by then has a row too, with nothing in it."""
    view = checked(source.view)
    keys = surveyed(source, at=at).entities if entities is None else entities
    taken = {*(key.in_labels for key in view.keys), *(feature.name for feature in view.features)}
    columns = len(common_schema(view, source.pieces))
    time = next(name for name in (_AT + "_" * more for more in range(columns + 3)) if name not in taken)
    labels = keys.rename_columns([key.in_labels for key in view.keys])
    labels = labels.append_column(time, pa.repeat(pa.scalar(at, pa.int64()).cast(MOMENT), len(labels)))
    for table in training_set(labels, time=time, sources=[source], memory=memory):
        without = table.drop_columns([time])
        yield without.rename_columns([*keys.column_names, *without.column_names[len(view.keys) :]])
