"""Values come back with the bits they went in with, and what does not fit is told."""

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, TooLarge
from falaj.datasets.online.errors import OtherFeatures, RowAltered
from falaj.datasets.online.rows import MOST_ROW_BYTES, EntityKey, Field, Schema
from falaj.tables.arrow_schemas import arrow_type, from_arrow
from falaj.tables.plain_values import from_plain, to_plain
from falaj.tables.types import parse
from tests.tables.values import tables


def schema(*types: str) -> Schema:
    return Schema([Field(name=f"f{index}", type=word) for index, word in enumerate(types)])


@given(tables())
def test_arrow_values_of_every_type_come_back_as_they_were(table):
    columns = from_arrow(table.schema).columns
    fields = Schema([Field(name=column.name, type=column.type) for column in columns])
    kinds = [arrow_type(parse(column.type)) for column in columns]
    plain = [to_plain(column.cast(kind)) for column, kind in zip(table.columns, kinds, strict=True)]
    rows = [fields.unpack(fields.pack(row)) for row in zip(*plain, strict=True)]
    for index, kind in enumerate(kinds):
        back = from_plain([row[index] for row in rows], kind)
        back.validate(full=True)
        assert back.equals(table.column(index).cast(kind).combine_chunks())


FLOATS = [
    0.0,
    -0.0,
    1e-323,
    math.inf,
    -math.inf,
    math.nan,
    0.1,
    struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_1234))[0],
]


@pytest.mark.parametrize("word", ["float64", "float32"])
def test_floats_keep_every_bit(word):
    arrays = [pa.array(FLOATS, pa.float64()).cast(arrow_type(parse(word)))]
    fields = schema(word, f"list({word})", f"vector({word}, {len(FLOATS)})")
    plain = to_plain(arrays[0])
    rows = [fields.unpack(fields.pack((one, plain, plain))) for one in plain]
    for values in ([row[0] for row in rows], rows[0][1], rows[0][2]):
        assert (
            from_plain(values, arrays[0].type).buffers()[1].to_pybytes()[: arrays[0].nbytes]
            == arrays[0].buffers()[1].to_pybytes()[: arrays[0].nbytes]
        )


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("int64", [-(2**63), 2**63 - 1, 0]),
        ("uint64", [0, 2**64 - 1]),
        ("bool", [True, False]),
        ("text", ["", "\0", "ماء", "a" * 1000]),
        ("bytes", [b"", b"\0\xff"]),
        ("moment", [Moment(-(2**63)), Moment(0), Moment(2**63 - 1)]),
        ("date", [-(2**31), 0, 2**31 - 1]),
        ("decimal(20, 4)", [Decimal("-0.0000"), Decimal("1234567890123456.7890")]),
        ("list(text)", [[], [None], ["", None, "b"]]),
        ("list(list(int8))", [[[1, None], None, []]]),
        ('record("a": list(moment), "b": bool)', [{"a": [Moment(1), None], "b": None}, {"a": None, "b": False}]),
    ],
)
def test_values_and_nulls_keep_their_type(word, values):
    for one in [*values, None]:
        (found,) = schema(word).unpack(schema(word).pack([one]))
        assert (found, type(found), repr(found)) == (one, type(one), repr(one))


@pytest.mark.parametrize(
    ("word", "wrong"),
    [
        ("int8", 128),
        ("int64", 2**63),
        ("int64", 1.5),
        ("int64", "1"),
        ("uint8", -1),
        ("float64", "x"),
        ("float32", 1e300),
        ("bool", 1),
        ("bool", "true"),
        ("text", b"bytes"),
        ("text", "\ud800"),
        ("bytes", "text"),
        ("moment", 1.0),
        ("decimal(3, 1)", 1.5),
        ("list(int64)", "12"),
        ("list(int64)", 5),
        ("list(int64)", [1, "2"]),
        ("vector(float32, 2)", [1.0]),
        ('record("a": int64)', {"b": 1}),
        ('record("a": int64)', {"a": 1, "b": 1}),
        ("unknown", 1),
    ],
)
def test_a_value_that_does_not_fit_is_told_by_name(word, wrong):
    with pytest.raises(Invalid, match=r"'f1' is of type .* does not fit"):
        schema("int64", word).pack([1, wrong])


def test_more_or_fewer_values_are_told():
    for values in ([], [1], [1, 2, 3]):
        with pytest.raises(Invalid, match=f"{len(values)} values, and the view 2 features"):
            schema("int64", "int64").pack(values)


def test_a_row_larger_than_is_kept_is_told():
    schema("text").pack(["x" * (MOST_ROW_BYTES - 100)])
    with pytest.raises(TooLarge):
        schema("text").pack(["x" * MOST_ROW_BYTES])


@pytest.mark.parametrize(
    "other", [["int64"], ["text", "int64"], ["int64", "text", "bool"], ["int64", "bytes"], ["int32", "text"]]
)
def test_a_row_of_other_features_is_told(other):
    packed = schema("int64", "text").pack([1, "a"])
    with pytest.raises(OtherFeatures):
        schema(*other).unpack(packed)
    renamed = Schema([Field(name="f0", type="int64"), Field(name="g", type="text")])
    with pytest.raises(OtherFeatures):
        renamed.unpack(packed)


@given(st.integers(8, 60))
def test_a_row_that_is_cut_short_is_told(length):
    fields = schema("int64", "list(list(int64))", "decimal(9, 2)")
    packed = fields.pack([1, [[1], [2, 3]], Decimal("1.25")])
    if length < len(packed):
        with pytest.raises(RowAltered):
            fields.unpack(packed[:length])


@pytest.mark.parametrize(
    "fields", [[], [("a", "int64"), ("a", "text")], [("a", "int65")], [(f"f{n}", "bool") for n in range(1001)]]
)
def test_a_view_that_cannot_be_is_told(fields):
    with pytest.raises(Invalid):
        Schema([Field(name=name, type=word) for name, word in fields])


KEYS = [
    ("int64", st.integers(-(2**63), 2**63 - 1)),
    ("text", st.text(max_size=3)),
    ("bytes", st.binary(max_size=3)),
    ("bool", st.booleans()),
    ("moment", st.integers(-9, 9)),
]
ENTITIES = st.lists(st.sampled_from(KEYS).flatmap(lambda kind: st.tuples(st.just(kind[0]), kind[1])), min_size=1, max_size=3)


@given(ENTITIES, ENTITIES)
def test_no_two_entities_have_the_same_key(one, other):
    packed = [
        EntityKey([Field(name="k", type=word) for word, _ in key]).pack([part for _, part in key]) for key in (one, other)
    ]
    assert (packed[0] == packed[1]) == (one == other)


def test_a_key_may_widen():
    assert EntityKey([Field(name="k", type="int8")]).pack([7]) == EntityKey([Field(name="k", type="uint64")]).pack([7])


@pytest.mark.parametrize(
    ("word", "wrong"),
    [("int64", "7"), ("int64", 7.0), ("int64", True), ("int64", None), ("text", 7), ("text", None), ("bool", 1)],
)
def test_a_key_that_does_not_fit_is_told(word, wrong):
    with pytest.raises(Invalid, match="'k' is of type"):
        EntityKey([Field(name="k", type=word)]).pack([wrong])
    with pytest.raises(Invalid, match="known by k; 2 values"):
        EntityKey([Field(name="k", type=word)]).pack([1, 2])


@pytest.mark.parametrize("word", ["float64", "list(text)", "decimal(3, 1)"])
def test_what_cannot_be_a_key_is_told(word):
    with pytest.raises(Invalid, match="'k' is of type"):
        EntityKey([Field(name="k", type=word)])
    with pytest.raises(Invalid, match="names none"):
        EntityKey([])
