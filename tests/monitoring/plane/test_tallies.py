"""Counting columns together: the same as looking for the bin of each number, in either precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from falaj.monitoring.plane.tallies import counted

EDGES = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6, unique=True).map(sorted)


def looked_up(numbers, edges):
    places = np.searchsorted(edges, numbers, side="left")
    return np.bincount(np.where(np.isnan(numbers), len(edges) + 1, places), minlength=len(edges) + 2).tolist()


@given(
    single=arrays(np.float32, st.tuples(st.just(2), st.integers(1, 30)), elements=st.floats(width=32)),
    double=st.one_of(st.none(), st.floats()),
    edges=st.tuples(EDGES, EDGES),
)
def test_counts_are_those_of_a_search_whether_or_not_single_precision_has_the_numbers(single, double, edges):
    values = single.astype(np.float64)
    if double is not None:
        values[0, 0] = double
    assert [one.tolist() for one in counted(values, edges)] == [
        looked_up(row, own) for row, own in zip(values, edges, strict=True)
    ]


@pytest.mark.parametrize("beside", [0.0, 1e-12])
def test_a_number_at_an_edge_that_single_precision_has_not_stays_on_its_side(beside):
    edge = 0.1  # single precision has none nearer than 0.10000000149
    values = np.array([[np.float64(np.nextafter(np.float32(0.1), np.float32(0))), np.float64(np.float32(0.1)), beside]])
    assert counted(values, [[edge]])[0].tolist() == [2, 1, 0]
