"""Rows on their way through a model: cut into pieces that are the same every time, given as plain values, and put together with
what the model said."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from falaj.base.errors import Conflict

Array = npt.NDArray[np.generic]


def pieces(batches: Iterable[pa.RecordBatch], rows: int, *, skip: int = 0) -> Iterator[pa.Table]:
    """Tables of so many rows, the last of fewer; whatever the batches are. The first `skip` of them are passed over."""
    waiting: list[pa.RecordBatch] = []
    count, passed = 0, skip * rows
    for batch in batches:
        left = min(passed, batch.num_rows)
        passed -= left
        rest = batch.slice(left)
        while rest.num_rows:
            taken = rest.slice(0, rows - count)
            rest = rest.slice(taken.num_rows)
            waiting.append(taken)
            count += taken.num_rows
            if count == rows:
                yield pa.Table.from_batches(waiting)
                waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def plain_rows(piece: pa.Table, columns: Sequence[str], start: int, count: int) -> list[list[Any]]:
    """As JSON would have them: a list for each row, in the order of the columns."""
    taken = piece.select(list(columns)).slice(start, count)
    return [list(row) for row in zip(*(column.to_pylist() for column in taken.columns), strict=True)]


def numbers(piece: pa.Table, column: str) -> Array | None:
    """A column of numbers or truths, nulls as NaN, with a row for each; or of vectors, each as long as the others. None where
    it holds anything else."""
    found = piece.column(column).combine_chunks()
    kind = found.type
    if pa.types.is_fixed_size_list(kind) and _is_plain(kind.value_type) and not found.null_count:
        flat = found.flatten()
        return None if flat.null_count else flat.to_numpy(zero_copy_only=False).reshape(len(found), kind.list_size)
    if not _is_plain(kind):
        return None
    whole = found.cast(pa.float64()) if found.null_count else found
    return whole.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def with_predictions(piece: pa.Table, keep: Sequence[str], outputs: Sequence[tuple[str, Array]]) -> bytes:
    """An Arrow stream of the kept columns and the model's outputs behind them. Raises `Conflict` for a name that is both's."""
    if twice := sorted(set(keep) & {name for name, _ in outputs}):
        raise Conflict(
            f"The model's output is called {twice[0]!r}, and so is a column that is kept: keep another, or rename it."
        )
    kept = piece.select(list(keep)) if keep else None
    fields = [] if kept is None else list(kept.schema)
    arrays: list[Any] = [] if kept is None else [column.combine_chunks() for column in kept.columns]
    for name, array in outputs:
        made = _column(array, piece.num_rows, name)
        fields.append(pa.field(name, made.type))
        arrays.append(made)
    schema = pa.schema(fields)
    table = pa.Table.from_arrays(arrays, schema=schema)
    file = io.BytesIO()
    with pa.ipc.new_stream(file, schema) as stream:
        stream.write_table(table)
    return file.getvalue()


def _column(array: Array, rows: int, name: str) -> pa.Array:
    """One value for each row, or a vector of them."""
    if array.ndim == 0 or array.shape[0] != rows:
        raise Conflict(
            f"The model's output {name!r} has the shape {list(array.shape)} for {rows} rows: it has no row for each."
        )
    width = int(np.prod(array.shape[1:]))
    flat = _values(np.ascontiguousarray(array).reshape(-1))
    return flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)


def _values(flat: Array) -> pa.Array:
    if flat.dtype != np.object_:
        return pa.array(flat.astype(np.float32) if flat.dtype == np.float16 else flat)
    texts = flat.tolist()
    try:
        return pa.array([one.decode() if isinstance(one, bytes) else str(one) for one in texts], pa.string())
    except UnicodeDecodeError:
        return pa.array(texts, pa.binary())
