"""Granted parts as arrays of numbers, a row group at a time: what trainings are fed with.

In which order and by whom groups are read is not known here.
"""

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import to_arrow
from falaj.tables.fitting import Fitting
from falaj.tables.granted import SealedPart
from falaj.tables.parts import PartReader
from falaj.tables.schemas import Schema
from falaj.tables.types import Type

_OPEN: Final = 64  # readers that are kept for the next group of theirs
_AT_ONCE: Final = 8  # footers that are fetched at a time
_NUMBERS: Final = (*types.INTEGERS, *types.FLOATS)

Array = np.ndarray[Any, Any]


class GroupArrays:
    """Thread-safe. Raises `Altered` where a part is not what was sealed.

    Columns of numbers and truth values are arrays of their own kind; a decimal is a float64, a vector a row of its numbers.
    Nulls are NaN, for which integers and truth values become float64. What is none of these is an array of Python objects.
    """

    def __init__(self, schema: Schema, parts: Sequence[SealedPart]) -> None:
        self.dtypes: Mapping[str, np.dtype[Any]] = {one.name: _dtype(types.parse(one.type)) for one in schema.columns}
        self._schema, self._parts = schema, parts
        self._lock = threading.Lock()
        self._idle: deque[tuple[int, PartReader]] = deque()
        self._process = os.getpid()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="reading footers") as several:
            counted = list(several.map(self._counted, range(len(parts))))
        self._places = [(part, group) for part, groups in enumerate(counted) for group in range(len(groups))]
        self.rows: Sequence[int] = [rows for groups in counted for rows in groups]

    def __getstate__(self) -> dict[str, Any]:
        raise Invalid(
            "What reads sealed parts holds keys and connections, and is not sent to other processes. Read in threads, as it "
            "does by itself, or start loader processes by fork (multiprocessing_context='fork')."
        )

    def read(self, group: int, columns: Sequence[str]) -> dict[str, Array]:
        place, own_group = self._places[group]
        part = self._parts[place]
        reader = self._taken(place)
        try:
            called = {part.renamed.get(name, name): name for name in reader.schema.names}
            here = [name for name in columns if name in called]
            table = reader.read([called[name] for name in here], groups=[own_group]) if here else None
        finally:
            self._returned(place, reader)
        wanted = Schema(columns=tuple(self._schema.column(name) for name in columns))
        if table is None:
            nulls = {field.name: pa.nulls(self.rows[group], field.type) for field in to_arrow(wanted)}
            return {name: _array(column, self.dtypes[name]) for name, column in nulls.items()}
        batch = table.rename_columns([part.renamed.get(name, name) for name in table.column_names]).combine_chunks()
        whole = batch.to_batches()[0] if batch.num_rows else pa.RecordBatch.from_pylist([], batch.schema)
        fitted = Fitting(whole.schema, wanted)(whole)
        return {name: _array(fitted.column(name), self.dtypes[name]) for name in columns}

    def _counted(self, place: int) -> Sequence[int]:
        reader = self._taken(place)
        try:
            return reader.group_rows
        finally:
            self._returned(place, reader)

    def _taken(self, place: int) -> PartReader:
        """One that nobody else uses meanwhile."""
        with self._lock:
            if self._process != os.getpid():  # a fork has files of its own
                while self._idle:
                    self._idle.popleft()[1].close()
                self._process = os.getpid()
            for number, (other, reader) in enumerate(self._idle):
                if other == place:
                    del self._idle[number]
                    return reader
        part = self._parts[place]
        return PartReader(part.seek(), key=part.key, object_id=part.object_id)

    def _returned(self, place: int, reader: PartReader) -> None:
        with self._lock:
            self._idle.append((place, reader))
            if len(self._idle) > _OPEN:
                self._idle.popleft()[1].close()


def _dtype(kind: Type) -> "np.dtype[Any]":
    if kind.word == "vector":
        inner = _dtype(kind.inner[0])
        return np.dtype(np.object_) if inner == np.object_ else np.dtype((inner, kind.sizes))
    if kind.word in _NUMBERS or kind.word == "bool":
        return np.dtype(kind.word)
    return np.dtype(np.float64 if kind.word == "decimal" else np.object_)


def _array(column: pa.Array, kind: "np.dtype[Any]") -> Array:
    if kind == np.object_:
        found = np.empty(len(column), np.object_)
        found[:] = column.to_pylist()
        return found
    if kind.shape:
        return _vectors(column, kind)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(column.type) and column.null_count:
        column = column.cast(pa.int8())
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _vectors(column: pa.Array, kind: "np.dtype[Any]") -> Array:
    """A null one is NaN throughout."""
    (width,) = kind.shape
    flat = _array(column.flatten(), kind.base).reshape(-1, width)
    if not column.null_count:
        return flat
    here = column.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.full((len(column), width), np.nan, kind.base if kind.base.kind == "f" else np.float64)
    numbers[here] = flat
    return numbers
