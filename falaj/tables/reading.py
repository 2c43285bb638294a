"""The rows of a table that lies in sealed parts, as its version has them: renamed, widened, with what is absent or masked as
null."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from falaj.tables.descriptors import Descriptor
from falaj.tables.fitting import Fitting
from falaj.tables.orders import PartToRead, TableToRead
from falaj.tables.parts import PartReader
from falaj.tables.schemas import Schema

_BATCH_ROWS: Final = 65_536


def reader(part: PartToRead) -> PartReader:
    return PartReader(Descriptor(part.file), key=part.key, object_id=part.object_id)


def batches(table: TableToRead, columns: Sequence[str] = (), *, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """In their order; `columns` in theirs, or all."""
    wanted = tuple(table.schema.column(name) for name in columns) if columns else table.schema.columns
    schema = Schema(columns=wanted)
    for part in table.parts:
        opened, renamed = reader(part), part.renamed or {}
        visible = {own: now for own in opened.schema.names if (now := renamed.get(own, own)) not in table.masked}
        read = [own for own, now in visible.items() if now in schema.names]
        if not read:
            yield from _nothing(schema, opened.rows, rows)
            continue
        fields = [opened.arrow_schema.field(own).with_name(visible[own]) for own in read]
        fitting = Fitting(pa.schema(fields), _absent_as_null(schema, table.masked))
        for batch in opened.batches(read, rows=rows):
            yield fitting(pa.RecordBatch.from_arrays(batch.columns, names=[visible[own] for own in batch.schema.names]))


def _nothing(schema: Schema, count: int, rows: int) -> Iterator[pa.RecordBatch]:
    fitting = Fitting(pa.schema([]), _absent_as_null(schema, schema.names))
    for start in range(0, count, rows):
        nothing = [pa.nulls(min(rows, count - start), field.type) for field in fitting.target]
        yield pa.RecordBatch.from_arrays(nothing, schema=fitting.target)


def _absent_as_null(schema: Schema, masked: Sequence[str]) -> Schema:
    """What is masked is null, also where it may not be."""
    return Schema(
        columns=tuple(
            type(column)(name=column.name, type=column.type, nullable=column.nullable or column.name in masked)
            for column in schema.columns
        )
    )
