"""Training sets: labels with what each view knew of their entities at their moments, and nothing that became known later.

Labels are taken as many at a time as memory allows, and every view's rows are read once for those: nothing is ever put aside on
a disk. `materialising` asks the same for all entities at one moment.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.joining.arrays import check_moments, moments
from falaj.tables.joining.joins import Labels, ViewJoin, result_fields
from falaj.tables.joining.keys import comparable, key_type
from falaj.tables.joining.rows import Piece, blocks, common_schema
from falaj.tables.joining.views import View, checked
from falaj.tables.schemas import listed

MEMORY: Final = 2 << 30
_FEWEST: Final = 10_000
_KeySet = tuple[tuple[str, pa.DataType], ...]


@value
class Source:
    """A view and all of its rows."""

    view: View
    pieces: tuple[Piece, ...]


@value
class Plan:
    """What was found out before the first row is read. `keys` are the labels' columns by which each view finds its entity, and
    the types in which they are compared."""

    time: str
    sources: tuple[Source, ...]
    schemas: tuple[pa.Schema, ...]
    keys: tuple[_KeySet, ...]
    result: pa.Schema


def training_set(
    labels: pa.Table | pa.RecordBatchReader, *, time: str, sources: Sequence[Source], memory: int = MEMORY
) -> Iterator[pa.Table]:
    """The labels' rows and columns in their order, with the features of every view behind them; `time` is their column of
    moments.

    `memory` are the bytes that labels and what is gathered for them may take, about; the rows that are being read come on top.
    Raises `Invalid`: at once for columns and types that cannot be joined, later for values (a sum beyond 64 bits)."""
    plan = planned(labels.schema, time=time, sources=sources)
    reader = labels.to_reader() if isinstance(labels, pa.Table) else labels
    return _passes(plan, reader, max(_FEWEST, memory // _bytes_for_each(plan)))


def planned(labels: pa.Schema, *, time: str, sources: Sequence[Source]) -> Plan:
    check_moments(_field(labels, time).type, name=time)
    schemas, keys, fields = [], [], list(labels)
    for source in sources:
        view = checked(source.view)
        schemas.append(common_schema(view, source.pieces))
        keys.append(tuple(_compared(labels, schemas[-1], key.in_labels, key.column) for key in view.keys))
        fields += result_fields(view, schemas[-1])
    names = [field.name for field in fields]
    if twice := tuple(dict.fromkeys(name for name in names if names.count(name) > 1)):
        raise Invalid(
            f"The result would have more than one column called {listed(twice)}: rename the features or the labels' columns."
        )
    return Plan(time=time, sources=tuple(sources), schemas=tuple(schemas), keys=tuple(keys), result=pa.schema(fields))


def _passes(plan: Plan, reader: pa.RecordBatchReader, at_once: int) -> Iterator[pa.Table]:
    threads = _threads(len(plan.sources))
    with ThreadPoolExecutor(threads, "joining") as joining, ThreadPoolExecutor(threads, "reading") as readers:
        some: list[pa.RecordBatch] = []
        rows, passed = 0, False
        for batch in reader:
            while rows + batch.num_rows >= at_once:
                some.append(batch.slice(0, at_once - rows))
                batch = batch.slice(at_once - rows)
                yield _joined(plan, pa.Table.from_batches(some, reader.schema), joining, readers)
                some, rows, passed = [], 0, True
            some.append(batch)
            rows += batch.num_rows
        if rows or not passed:
            yield _joined(plan, pa.Table.from_batches(some, reader.schema), joining, readers)


def _joined(plan: Plan, labels: pa.Table, joining: Executor, readers: Executor) -> pa.Table:
    times = moments(labels.column(plan.time), name=plan.time)

    def looked_at(keys: _KeySet) -> Labels:
        return Labels([comparable(labels.column(name), kind) for name, kind in keys], times)

    by_keys = dict(zip(different := list(dict.fromkeys(plan.keys)), joining.map(looked_at, different), strict=True))

    def features(number: int) -> list[pa.Array]:
        schema, source = plan.schemas[number], plan.sources[number]
        join = ViewJoin(source.view, by_keys[plan.keys[number]], schema)
        for block in blocks(source.pieces, schema, readers):
            join.add(block)
        return list(join.finish().values())

    columns = list(labels.columns)
    for found in joining.map(features, range(len(plan.sources))):
        columns += found
    return pa.Table.from_arrays(columns, schema=plan.result)


def _compared(labels: pa.Schema, rows: pa.Schema, name: str, column: str) -> tuple[str, pa.DataType]:
    return name, key_type(_field(labels, name).type, rows.field(column).type, name=name)


def _field(labels: pa.Schema, name: str) -> pa.Field:
    if labels.names.count(name) != 1:
        many = "more than one column" if name in labels.names else "no column"
        raise Invalid(f"The labels have {many} {name!r}. There are {listed(tuple(labels.names))}.")
    return labels.field(name)


def _bytes_for_each(plan: Plan) -> int:
    """Of memory for each label, about: a guess, as nobody knows how long texts are."""
    size = sum(_width(field.type) for field in plan.result)
    for source in plan.sources:
        size += 100 + sum(24 if feature.function == "last" else 160 for feature in source.view.features)
    return size


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 40


def _threads(views: int) -> int:
    return max(1, min(views, len(os.sched_getaffinity(0))))
