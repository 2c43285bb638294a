"""Hashes of values: equal for equal values whatever shape they lie in, apart for others."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from falaj.tables.hashing import hashes

TEXTS = st.lists(st.text(max_size=40) | st.text("ab", min_size=200, max_size=300), max_size=20)


@given(TEXTS, TEXTS)
def test_equal_texts_have_equal_hashes_wherever_they_lie(some, others):
    together = hashes(pa.array([*some, *others], pa.string()))
    alone = hashes(pa.array([*others, *some, *others], pa.string()).slice(len(others), len(some)))
    assert together[: len(some)].tolist() == alone.tolist()
    by_text = dict(zip([*some, *others], together.tolist(), strict=True))
    assert len(set(by_text.values())) == len(by_text)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_numbers_keep_their_hash_when_their_column_is_widened(values):
    expected = hashes(pa.array(values, pa.int32())).tolist()
    for kind in (pa.int64(), pa.float64(), pa.decimal128(21, 2)):
        assert hashes(pa.array(values, pa.int64()).cast(kind)).tolist() == expected
    assert len(set(expected)) == len(set(values))


def test_hashes_are_spread_over_all_bits():
    for values in (pa.array(np.arange(100_000)), pa.array([str(number) for number in range(100_000)])):
        found = hashes(values)
        for bit in range(64):
            share = float(((found >> np.uint64(bit)) & np.uint64(1)).mean())
            assert abs(share - 0.5) < 0.02


def test_some_types_are_not_told_apart():
    assert hashes(pa.array([[1], [2]])) is None
    assert hashes(pa.array([{"a": 1}])) is None
    assert len(set(hashes(pa.array([True, False])).tolist())) == 2
