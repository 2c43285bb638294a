"""The digest of content: one for the same rows, whatever shape they lie in; another for any others."""

import io

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from falaj.tables.digests import canonical
from falaj.tables.parts import PartWriter
from tests.tables.values import schema_of, sliced, tables


def digest(table, batches=None):
    with PartWriter(io.BytesIO(), schema_of(table), key=bytes(32), object_id="a" * 32) as writer:
        for batch in batches if batches is not None else table.to_batches():
            writer.write(batch)
    return writer.written.digest


@given(tables(), st.lists(st.integers(0, 100), max_size=5))
@settings(max_examples=30)
def test_the_same_rows_have_one_digest_however_they_are_cut(table, cuts):
    assert digest(table) == digest(table, sliced(table, cuts))


@given(tables(), tables())
@settings(max_examples=30)
def test_other_rows_have_another(one, other):
    assume(not one.equals(other))
    assert digest(one) != digest(other)


def test_more_rows_than_a_block_do_not_depend_on_how_they_came():
    table = pa.table({"n": range(40_000), "t": [None if number % 7 == 0 else str(number) for number in range(40_000)]})
    whole = digest(table)
    for rows in (1000, 16_383, 16_384, 16_385, 40_000):
        assert digest(table, table.to_batches(max_chunksize=rows)) == whole


def test_what_lies_under_nulls_does_not_count():
    valid = pa.py_buffer(b"\x05")  # 1, null, 1
    numbers = [
        pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(pa.array(raw, pa.int32()).buffers()[1])])
        for raw in ([1, 2, 3], [1, 9, 3])
    ]
    assert _bytes(numbers[0]) == _bytes(numbers[1])
    texts = [
        pa.Array.from_buffers(pa.string(), 3, [valid, pa.py_buffer(pa.array(ends, pa.int32()).buffers()[1]), pa.py_buffer(raw)])
        for ends, raw in (([0, 1, 1, 2], b"ac"), ([0, 1, 2, 3], b"abc"))
    ]
    assert _bytes(texts[0]) == _bytes(texts[1])
    lists = [
        pa.Array.from_buffers(
            pa.list_(pa.int8()),
            3,
            [valid, pa.py_buffer(pa.array(ends, pa.int32()).buffers()[1])],
            children=[pa.array(raw, pa.int8())],
        )
        for ends, raw in (([0, 1, 1, 2], [7, 9]), ([0, 1, 2, 3], [7, 8, 9]))
    ]
    assert _bytes(lists[0]) == _bytes(lists[1])


def test_neighbours_do_not_flow_into_each_other():
    assert digest(pa.table({"a": ["ab", "c"]})) != digest(pa.table({"a": ["a", "bc"]}))
    assert digest(pa.table({"a": [[1], [2, 3]]})) != digest(pa.table({"a": [[1, 2], [3]]}))
    assert digest(pa.table({"a": [1], "b": [2]})) != digest(pa.table({"b": [1], "a": [2]}))


def _bytes(array):
    return b"".join(bytes(piece) for piece in canonical(array))
