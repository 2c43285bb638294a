"""Which rows speak of the same entity: keys of any type, one or several columns, as small numbers."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import arrow_type, type_word
from falaj.tables.joining.arrays import Ints
from falaj.tables.types import Type

_NO_KEYS = ("list", "vector", "record")


class Entities:
    """The entities of some labels: `codes` are the labels', from 0 on, -1 where a part of the key is null."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._parts: list[_Dictionary] = []
        self._pairs: list[_Dictionary] = []
        self.codes: Ints = self._added(columns[0])
        for column in columns[1:]:
            pairs = _Dictionary(_paired(self.codes, self._added(column), self._parts[-1].size))
            self.codes = pairs.codes
            self._pairs.append(pairs)
        self.count = (self._pairs or self._parts)[-1].size

    def find(self, columns: Sequence[pa.ChunkedArray]) -> Ints:
        """The codes of other rows; -1 for entities that no label is of."""
        codes = self._parts[0].find(columns[0])
        for column, part, pairs in zip(columns[1:], self._parts[1:], self._pairs, strict=True):
            codes = pairs.find(_paired(codes, part.find(column), part.size))
        return codes

    def _added(self, column: pa.ChunkedArray) -> Ints:
        self._parts.append(_Dictionary(column))
        return self._parts[-1].codes


class _Dictionary:
    """The different values of a column, numbered."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        self.codes = _codes(encoded.indices)
        self._values = encoded.dictionary
        self.size = len(self._values)

    def find(self, column: pa.ChunkedArray) -> Ints:
        return _codes(pc.index_in(column, value_set=self._values, skip_nulls=True))


def key_type(labels: pa.DataType, rows: pa.DataType, *, name: str) -> pa.DataType:
    """In what type keys are compared. Raises `Invalid` where they cannot be."""
    one, other = type_word(labels, of=name), type_word(rows, of=name)
    for narrow, wide in ((one, other), (other, one)):
        if types.fits(narrow, into=wide) and wide.word not in _NO_KEYS:
            return arrow_type(wide if wide.word != "unknown" else Type(word="int64"))
    raise Invalid(
        f"Key {name!r} is {one} in the labels and {other} in the view's rows: the two cannot be compared. Convert one."
    )


def comparable(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Equal keys are equal bits then. A NaN is equal to nothing, and so is null."""
    if column.type != kind:
        column = column.cast(kind)
    if pa.types.is_floating(kind):
        column = pc.add(pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column), pa.scalar(0.0, kind))
    return column


def _paired(codes: Ints, more: Ints, size: int) -> pa.ChunkedArray:
    pairs = np.where((codes < 0) | (more < 0), -1, codes * size + more)
    return pa.chunked_array([pa.array(pairs, mask=pairs < 0)])


def _codes(indices: pa.Array | pa.ChunkedArray) -> Ints:
    codes: Ints = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
