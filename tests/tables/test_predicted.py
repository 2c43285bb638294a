"""Rows on their way through a model: pieces are the same whatever the batches are, and a name is one column's."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Conflict
from falaj.tables.predicted import pieces, plain_rows, with_predictions


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7), st.integers(0, 3))
def test_pieces_are_the_same_whatever_the_batches_are(sizes: list[int], rows: int, skip: int) -> None:
    numbers, at, batches = list(range(sum(sizes))), 0, []
    for size in sizes:
        batches.append(pa.record_batch({"n": pa.array(numbers[at : at + size], pa.int64())}))
        at += size
    found = [piece.column("n").to_pylist() for piece in pieces(batches, rows, skip=skip)]
    assert found == [numbers[start : start + rows] for start in range(skip * rows, len(numbers), rows)]


def test_outputs_stand_behind_what_is_kept_as_values_vectors_and_texts() -> None:
    piece = pa.table({"id": [1, 2], "x": [0.5, None]})
    assert plain_rows(piece, ["x", "id"], 1, 5) == [[None, 2]]
    outputs = [
        ("label", np.array([b"yes", b"no"], dtype=object)),
        ("score", np.array([[0.25], [0.75]], np.float32)),
        ("each", np.array([[1, 2, 3], [4, 5, 6]], np.float32)),
    ]
    read = pa.ipc.open_stream(io.BytesIO(with_predictions(piece, ["id"], outputs))).read_all()
    assert read.to_pylist() == [
        {"id": 1, "label": "yes", "score": 0.25, "each": [1.0, 2.0, 3.0]},
        {"id": 2, "label": "no", "score": 0.75, "each": [4.0, 5.0, 6.0]},
    ]
    with pytest.raises(Conflict, match="called 'id', and so is a column that is kept"):
        with_predictions(piece, ["id"], [("id", np.array([1, 2]))])
    with pytest.raises(Conflict, match=r"has the shape \[3\] for 2 rows"):
        with_predictions(piece, [], [("y", np.array([1, 2, 3]))])
