"""Reading a version wherever somebody was granted it: the sealed parts are fetched, opened and brought into its columns.

How bytes are fetched is not known here.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from typing import IO, Annotated, Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.base.values import Secret, value
from falaj.tables.arrow_schemas import to_arrow
from falaj.tables.errors import LibraryMissing
from falaj.tables.fitting import Fitting
from falaj.tables.parts import PartReader
from falaj.tables.schemas import Schema

_BATCH: Final = 65_536


@value
class SealedPart:
    """`fetch` brings all bytes, `seek` a file that brings those that are read. `renamed`: what columns are called now, by the
    names they were stored under."""

    object_id: str
    key: Annotated[bytes, Secret()]
    renamed: dict[str, str]
    fetch: Callable[[], bytes]
    seek: Callable[[], IO[bytes]]


class GrantedTable:
    """Thread-safe; every reading is one of its own. Raises `Altered` where a part is not what was sealed."""

    def __init__(self, schema: Schema, parts: Sequence[SealedPart]) -> None:
        self.schema = schema
        self.parts = parts

    def batches(self, columns: Sequence[str] | None = None, *, rows: int = _BATCH) -> Iterator[pa.RecordBatch]:
        """In their order. While a part is read, the next one is on its way; no more than two are in memory."""
        wanted = self._wanted(columns)
        with ThreadPoolExecutor(1, thread_name_prefix="reading ahead") as ahead:
            coming: Future[PartReader] | None = None
            for number, part in enumerate(self.parts):
                reader = coming.result() if coming else self._opened(part, columns)
                following = self.parts[number + 1 : number + 2]
                coming = ahead.submit(self._opened, following[0], columns) if following else None
                yield from _brought(reader, part, wanted, rows)

    def share(self, number: int, of: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Of every part the row groups that are the share `number` of `of`, from 0: all shares are all rows, once."""
        wanted = self._wanted(columns)
        for part in self.parts:
            with closing(PartReader(part.seek(), key=part.key, object_id=part.object_id)) as reader:
                groups = range(reader.groups * number // of, reader.groups * (number + 1) // of)
                if groups:
                    yield from _brought(reader, part, wanted, _BATCH, groups)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        return pa.Table.from_batches(list(self.batches(columns)), to_arrow(self._wanted(columns)))

    def pandas(self, columns: Sequence[str] | None = None) -> Any:
        _library("pandas")
        return self.table(columns).to_pandas()

    def polars(self, columns: Sequence[str] | None = None) -> Any:
        return _library("polars").from_arrow(self.table(columns))

    def _wanted(self, columns: Sequence[str] | None) -> Schema:
        if columns is None:
            return self.schema
        if not columns:
            raise Invalid("Name at least one column, or none at all for every one.")
        return Schema(columns=tuple(self.schema.column(name) for name in columns))

    def _opened(self, part: SealedPart, columns: Sequence[str] | None) -> PartReader:
        """All of it at once, or only what is asked for where that is less."""
        stored = part.fetch() if columns is None else part.seek()
        return PartReader(stored, key=part.key, object_id=part.object_id)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise LibraryMissing(f"There is no {name} here: pip install {name}.") from None


def _brought(
    reader: PartReader, part: SealedPart, wanted: Schema, rows: int, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    own = {part.renamed.get(name, name): name for name in reader.schema.names}
    here = [name for name in wanted.names if name in own]
    if not here:
        target = to_arrow(wanted)
        total = reader.rows if groups is None else sum(reader.group_rows[group] for group in groups)
        for start in range(0, total, rows):
            count = min(rows, total - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in target], schema=target)
        return
    fitting: Fitting | None = None
    for batch in reader.batches([own[name] for name in here], groups=groups, rows=rows):
        called = batch.rename_columns([part.renamed.get(name, name) for name in batch.schema.names])
        fitting = fitting or Fitting(called.schema, wanted)
        yield fitting(called)
