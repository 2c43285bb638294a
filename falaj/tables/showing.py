"""Rows for people and for JSON: what JSON has stays, everything else is text."""

import base64
import math
from typing import Any

import pyarrow as pa

from falaj.tables.profile_values import plain, said


def shown(batch: pa.RecordBatch) -> list[list[Any]]:
    columns = [_column(column) for column in batch.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _column(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        try:
            return [None if one is None else _spelled(one) for one in column.to_pylist()]
        except (OverflowError, ValueError):  # years that no calendar here knows
            word = "date" if pa.types.is_date(kind) else "moment"
            return [None if one is None else said(word, one) for one in plain(column).to_pylist()]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_decimal(kind) and kind.scale == 0:  # as sums of integers are
        return [None if one is None else int(one) for one in column.to_pylist()]
    return [_value(one) for one in column.to_pylist()]


def _value(one: Any) -> Any:
    if one is None or isinstance(one, bool | int | str):
        return one
    if isinstance(one, float):
        return one if math.isfinite(one) else str(one)
    if isinstance(one, bytes):
        return base64.b64encode(one).decode()
    if isinstance(one, list):
        return [_value(each) for each in one]
    if isinstance(one, dict):
        return {name: _value(each) for name, each in one.items()}
    return _spelled(one)


def _spelled(one: Any) -> str:
    if hasattr(one, "isoformat"):
        return str(one.isoformat()).replace("+00:00", "Z")
    return str(one)
