"""Values as Python's own and back into Arrow with the same bits: moments, times and durations are whole microseconds, dates
whole days, as the online store takes and gives them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def to_plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    plain: list[Any] = column.cast(_plain_type(column.type)).to_pylist()
    return plain


def from_plain(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, _plain_type(kind)).cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """What holds the same bits without saying that they are a time."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind
