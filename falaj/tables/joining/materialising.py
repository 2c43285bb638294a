"""Feature values of all entities at one moment, for the online store: the training set whose labels are one of each entity, so
that every value has the same bits as in a training set of that moment."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from falaj.tables.joining.rows import common_schema, read
from falaj.tables.joining.training_sets import MEMORY, Source, training_set
from falaj.tables.joining.views import checked
from falaj.tables.moments import MOMENT

_AT = "at"


def materialised(source: Source, *, at: int, memory: int = MEMORY) -> Iterator[pa.Table]:
    """Tables of the view's key columns (as its rows call them) and its features; `at` are microseconds UTC. An entity of which
    nothing is known by then has a row too, with nothing in it. Holds all different keys in memory."""
    view = checked(source.view)
    schema = common_schema(view, source.pieces)
    keys = _entities(source, pa.schema([schema.field(key.column) for key in view.keys]))
    time = next(name for name in (_AT + "_" * more for more in range(len(schema) + 3)) if name not in _taken(source))
    labels = keys.rename_columns([key.in_labels for key in view.keys])
    labels = labels.append_column(time, pa.repeat(pa.scalar(at, pa.int64()).cast(MOMENT), len(labels)))
    for table in training_set(labels, time=time, sources=[source], memory=memory):
        without = table.drop_columns([time])
        yield without.rename_columns([*keys.column_names, *without.column_names[len(view.keys) :]])


def _entities(source: Source, schema: pa.Schema) -> pa.Table:
    """In the order in which they first appear; those with a null in their key are none."""
    found = schema.empty_table()
    for block in read(source.pieces, schema):
        table = block.table
        for name in schema.names:
            table = table.filter(pc.is_valid(pc.field(name)))
        some = _different(table, schema.names)
        found = _different(pa.concat_tables([found, some]), schema.names)
    return found


def _different(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.group_by(list(names), use_threads=False).aggregate([]).select(list(names))


def _taken(source: Source) -> set[str]:
    return {*(key.in_labels for key in source.view.keys), *(feature.name for feature in source.view.features)}
