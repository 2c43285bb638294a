"""Counting by bins: the same as looking for the bin of each number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from falaj.tables.bin_counts import count_bins

MANY = 4001  # times of any number, and all edges are held against them


def looked_up(numbers, edges):
    places = np.searchsorted(edges, numbers.astype(np.float64), side="left")
    return np.bincount(np.where(np.isnan(numbers), len(edges) + 1, places), minlength=len(edges) + 2).tolist()


@given(
    numbers=st.sampled_from([np.float32, np.float64]).flatmap(
        lambda kind: arrays(kind, st.integers(0, 50), elements=st.floats(width=np.dtype(kind).itemsize * 8))
    ),
    edges=st.lists(st.floats(allow_nan=False), min_size=1, max_size=8, unique=True).map(sorted),
)
def test_counts_are_those_of_a_search_for_each_number_few_or_many(numbers, edges):
    assert count_bins(numbers, edges).tolist() == looked_up(numbers, edges)
    assert count_bins(np.tile(numbers, MANY), edges).tolist() == [MANY * one for one in looked_up(numbers, edges)]


@pytest.mark.parametrize("rows", [0, 1, 4000, 4001, 32_767, 32_768, 100_001])
def test_numbers_are_counted_over_the_borders_of_what_is_looked_at_at_once(rows):
    numbers = np.random.default_rng(rows).normal(size=rows)
    numbers[::7] = np.nan
    edges = np.linspace(-2, 2, 21)
    assert count_bins(numbers, edges).tolist() == looked_up(numbers, edges)


def test_an_edge_that_single_precision_has_not_still_parts_its_neighbours():
    edge = 0.1  # single precision has none nearer than 0.10000000149
    numbers = np.array([np.nextafter(np.float32(0.1), np.float32(0)), np.float32(0.1)], dtype=np.float32)
    assert count_bins(numbers, [edge]).tolist() == [1, 1, 0]
    assert count_bins(np.tile(numbers, MANY), [edge]).tolist() == [MANY, MANY, 0]
