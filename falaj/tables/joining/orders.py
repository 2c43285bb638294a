"""What a data worker is asked about feature views: whether they can be, a training set, and values of a moment for serving."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from falaj.tables import types
from falaj.tables.arrow_schemas import from_arrow, to_arrow
from falaj.tables.joining.materialising import materialised
from falaj.tables.joining.rows import Held, Piece, common_schema
from falaj.tables.joining.surveying import Since, surveyed
from falaj.tables.joining.told import heard_view, hearing, telling
from falaj.tables.joining.training_sets import Source, planned, training_set
from falaj.tables.joining.views import Feature, checked
from falaj.tables.making import seal
from falaj.tables.moments import MOMENT
from falaj.tables.orders import TableToRead
from falaj.tables.plain_values import from_plain, to_plain
from falaj.tables.reading import batches
from falaj.tables.telling import heard_key, heard_schema, heard_table, told_schema

Told = Mapping[str, Any]
_LINES: Final = 10_000  # rows that become text at a time


class PartRows:
    """The rows of one sealed part, as its version has them."""

    def __init__(self, table: TableToRead) -> None:
        self.arrow_schema: pa.Schema = to_arrow(table.schema)
        self._table = table

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return batches(self._table, columns or ())


def check_view(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """Of a view over rows with this schema: its keys, as labels call them, and its features with their types."""
    view, rows = checked(heard_view(told["view"])), to_arrow(heard_schema(told["schema"]))
    source = Source(view=view, pieces=(Piece(rows=Held(rows.empty_table()), known=0),))
    schema = common_schema(view, source.pieces)
    taken = {*(key.in_labels for key in view.keys), *(feature.name for feature in view.features)}
    time = _unlike("time", taken)
    labels = [pa.field(key.in_labels, schema.field(key.column).type) for key in view.keys]
    result = planned(pa.schema([*labels, pa.field(time, MOMENT)]), time=time, sources=[source]).result
    return {"schema": told_schema(from_arrow(result.remove(len(labels))))}


def make_training_set(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """Sealed into the first descriptor."""
    labels = heard_table(told["labels"], files)
    schema, sources = to_arrow(labels.schema), [_source(one, files) for one in told["sources"]]
    plan = planned(schema, time=told["time"], sources=sources)
    reader = pa.RecordBatchReader.from_batches(schema, batches(labels))
    found = training_set(reader, time=told["time"], sources=sources, memory=told["memory_bytes"])
    with open(files[0], "wb", closefd=False) as into:
        made = (batch for table in found for batch in table.to_batches())
        facts = seal(made, plan.result, into, schema=None, key=heard_key(told["key"]), object_id=told["object_id"])
    return {**facts, "schema": told_schema(facts["schema"])}


def materialise(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """A line of JSON for each entity goes into the first descriptor: its key, its features, and event and knowledge of its
    newest row, which say how long they live and what is newer. The schema is that of a line without these two. With `since`
    only of entities that may have changed."""
    source = _source(told["source"], files)
    nulls, source = 0 if source.view.known else 1, _with_times(source)
    since = None if told["since"] is None else Since(at=told["since"][0], pieces=told["since"][1])
    survey = surveyed(source, at=told["at"], since=since)
    found = materialised(source, at=told["at"], entities=survey.entities, memory=told["memory_bytes"])
    return {**_written(found, files[0], nulls), "newest": survey.newest, "changes": survey.changes}


def replay(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """What a view says of given entities, each at a moment of its own: lines of JSON with keys and moment in the second
    descriptor, such lines as of `materialise` into the first, in their order."""
    source, keys = _source(told["source"], files), to_arrow(heard_schema(told["keys"]))
    time = _unlike("time", {*keys.names, *(feature.name for feature in source.view.features)})
    with open(files[1], encoding="utf-8", closefd=False) as given:
        labels = heard_rows(given, keys.append(pa.field(time, MOMENT)))
    found = training_set(labels, time=time, sources=[_with_times(source)], memory=told["memory_bytes"])
    without = (table.drop_columns([time]) for table in found)
    return _written(without, files[0], 0 if source.view.known else 1)


def _written(tables: Iterable[pa.Table], file: int, nulls: int) -> dict[str, Any]:
    """So many nulls stand behind each row, for times that it does not say."""
    rows, schema = 0, None
    with open(file, "wb", closefd=False) as into:
        for table in tables:
            schema = table.schema
            for start in range(0, len(table), _LINES):
                into.write("".join(_lines(table.slice(start, _LINES), nulls)).encode())
            rows += len(table)
        size = into.tell()
    assert schema is not None  # nosec B101 - there is a table, be it empty
    features = pa.schema(list(schema)[: len(schema) + nulls - 2])
    return {"schema": told_schema(from_arrow(features)), "rows": rows, "size": size}


def _source(told: Told, files: Sequence[int]) -> Source:
    table = heard_table(told["table"], files)
    pieces = [
        Piece(rows=PartRows(dataclasses.replace(table, parts=(part,))), known=known)
        for part, known in zip(table.parts, told["known"], strict=True)
    ]
    nothing = Piece(rows=Held(to_arrow(table.schema).empty_table()), known=0)
    return Source(view=heard_view(told["view"]), pieces=tuple(pieces) or (nothing,))


def _with_times(source: Source) -> Source:
    """The event of the newest row, and its knowledge where a column says it, as features behind the others."""
    view, features = source.view, list(source.view.features)
    for word, column in (("event", view.event), ("known", view.known)):
        taken = {*(key.column for key in view.keys), *(key.in_labels for key in view.keys), *(one.name for one in features)}
        features += [Feature(name=_unlike(word, taken), column=column)] if column else []
    return Source(view=dataclasses.replace(view, features=tuple(features)), pieces=source.pieces)


def _lines(table: pa.Table, nulls: int) -> Iterator[str]:
    columns = []
    for column, field in zip(table.columns, from_arrow(table.schema).columns, strict=True):
        change = telling(types.parse(field.type))
        plain = to_plain(column)
        columns.append(plain if change is None else [change(one) for one in plain])
    behind = (None,) * nulls
    for row in zip(*columns, strict=True):
        yield json.dumps((*row, *behind), ensure_ascii=False) + "\n"


def heard_rows(lines: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Lines of JSON as they are written here, as a table."""
    changes = [hearing(types.parse(field.type)) for field in from_arrow(schema).columns]
    told = map(json.loads, lines)
    rows = [[one if change is None else change(one) for one, change in zip(row, changes, strict=True)] for row in told]
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [from_plain(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _unlike(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


ORDERS: Final = {"check_view": check_view, "make_training_set": make_training_set, "materialise": materialise, "replay": replay}
