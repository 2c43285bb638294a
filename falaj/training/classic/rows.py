"""Rows of a table of any make: numpy, SciPy's sparse ones, pandas, polars, Arrow, lists."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid


def count(table: Any) -> int:
    if isinstance(table, str | bytes) or not (hasattr(table, "shape") or hasattr(table, "__len__")):
        raise Invalid(
            f"a table is a frame, an Arrow table, an array or a list of rows, and this is of type {type(table).__name__}"
        )
    shape = getattr(table, "shape", None)
    return int(shape[0]) if shape else len(table)


def take(table: Any, rows: NDArray[np.int64]) -> Any:
    for way in ("iloc", "take"):  # pandas; Arrow. numpy has `take` too, which flattens
        if hasattr(table, way) and not isinstance(table, np.ndarray) and not hasattr(table, "tocsr"):
            return table.iloc[rows] if way == "iloc" else table.take(rows)
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    return np.asarray(table)[rows] if isinstance(table, list | tuple) else table[rows]


def flat(column: Any, name: str, rows: int) -> NDArray[Any]:
    """One value a row, as an array."""
    found = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or len(found) != rows:
        raise Invalid(f"`{name}` has the shape {found.shape}, and the table has {rows} rows: give one value a row")
    return found


def missing(column: NDArray[Any]) -> int:
    """How many values are missing."""
    if column.dtype.kind == "O":
        return sum(one is None or one != one for one in column.tolist())
    return int(np.isnan(column).sum()) if column.dtype.kind == "f" else 0


def names_of(table: Any, width: int) -> list[str]:
    """Names of its columns, or their numbers."""
    columns = getattr(table, "column_names", None) or getattr(table, "columns", None)  # Arrow; pandas, polars
    return [f"column {place}" for place in range(width)] if columns is None else [str(name) for name in columns]
