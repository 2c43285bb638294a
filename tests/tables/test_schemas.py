"""How a schema may change from version to version, and what is refused with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Conflict, Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import from_arrow, to_arrow
from falaj.tables.schemas import MOST_COLUMNS, Column, Schema, checked, evolved, storable
from tests.tables.values import schema_of, tables


def schema(*columns, **types_by_name):
    return Schema(columns=(*columns, *(Column(name=name, type=word) for name, word in types_by_name.items())))


def test_columns_are_added_and_widened():
    now = schema(Column(name="id", type="int32", nullable=False), name="text", price="float32")
    step = evolved(now, schema(id="int64", name="text", price="float32", note="text"))
    assert [(one.name, one.type, one.nullable) for one in step.columns] == [
        ("id", "int64", True),
        ("name", "text", True),
        ("price", "float32", True),
        ("note", "text", True),
    ]


def test_narrower_rows_widen_nothing():
    assert evolved(schema(a="int64"), schema(a="int8")) == schema(a="int64")
    assert evolved(schema(a="text"), schema(a="unknown")) == schema(a="text")
    assert evolved(schema(a="unknown"), schema(a="date")) == schema(a="date")


@pytest.mark.parametrize(
    ("now", "given_", "said"),
    [
        ("int64", "text", "'a' is int64 and the given rows have text"),
        ("float64", "int64", "neither holds the other without loss"),
        ("int64", "uint64", "neither"),
        ("moment", "date", "neither"),
        ("decimal(10, 4)", "decimal(10, 2)", "neither"),
    ],
)
def test_types_that_do_not_hold_each_other_are_a_conflict(now, given_, said):
    with pytest.raises(Conflict, match=said):
        evolved(schema(a=now), schema(a=given_))


def test_columns_that_are_missing_are_a_conflict_unless_they_can_be_null():
    now = schema(Column(name="id", type="int64", nullable=False), b="text")
    assert evolved(now, schema(Column(name="id", type="int64", nullable=False))) == now
    with pytest.raises(Conflict, match=r"Column 'id' is missing from the given rows.*It may not be null: send it"):
        evolved(now, schema(b="text"))


def test_a_name_twice_and_words_that_are_none_are_refused():
    with pytest.raises(Invalid, match="two columns called 'a'"):
        checked(schema(Column(name="a", type="text"), a="text"))
    for word in (
        "int65",
        "list",
        "list(",
        "decimal(99, 2)",
        "decimal(2, 4)",
        "list(int64) x",
        "record()",
        'record("a": text, "a": text)',
    ):
        with pytest.raises(Invalid, match=r"Column 'a': .* is no type"):
            checked(schema(a=word))
    with pytest.raises(Invalid, match="nested more than"):
        types.parse("list(" * 1000 + "text" + ")" * 1000)


@given(tables(most=0))
def test_every_schema_is_spelled_and_read_back(table):
    ours = schema_of(table)
    assert checked(ours) == ours
    assert from_arrow(to_arrow(ours)) == ours
    assert to_arrow(ours).equals(table.schema)


@given(st.sampled_from(types.PLAIN), st.sampled_from(types.PLAIN), st.sampled_from(types.PLAIN))
def test_fitting_is_an_order(one, other, third):
    a, b, c = map(types.parse, (one, other, third))
    assert types.fits(a, into=a)
    if types.fits(a, into=b) and types.fits(b, into=a):
        assert a == b
    if types.fits(a, into=b) and types.fits(b, into=c):
        assert types.fits(a, into=c)


def test_columns_that_differ_in_case_alone_are_refused():
    with pytest.raises(Invalid, match="'email' and 'Email' differ in case alone"):
        checked(schema(email="text", Email="text"))
    with pytest.raises(Invalid, match="differ in case alone"):
        evolved(schema(id="int64", email="text"), schema(id="int64", email="text", EMAIL="text"))
    with pytest.raises(Invalid, match="differ in case alone"):
        evolved(schema(id="int64", email="text"), schema(ID="int64", email="text", id="int64"))


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "a\u202eb", "a\u2028b", "a\u200bb", "x" * 256])
def test_names_that_nobody_can_read_are_refused_where_rows_are_kept(name):
    with pytest.raises(Invalid, match=r"that nobody sees|at most 255 characters"):
        storable(schema(Column(name=name, type="int64")))
    assert checked(schema(Column(name=name, type="int64")))


def test_a_table_has_no_more_columns_than_a_version_can_say():
    many = schema(**{f"c{number}": "int64" for number in range(MOST_COLUMNS + 1)})
    with pytest.raises(Invalid, match="at most 10000"):
        storable(many)
    assert storable(Schema(columns=many.columns[1:]))
    with pytest.raises(Invalid, match="at most 10000"):
        evolved(schema(a="int64"), schema(a="int64", **{f"c{number}": "int64" for number in range(MOST_COLUMNS)}))
