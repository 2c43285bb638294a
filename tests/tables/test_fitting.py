"""Rows brought into a schema: widened where nothing is lost, and refused with column and row where something would be."""

import datetime
import decimal

import pyarrow as pa
import pytest

from falaj.base.errors import Invalid
from falaj.tables.fitting import Fitting
from falaj.tables.schemas import Column, Schema


def schema(**types):
    return Schema(columns=tuple(Column(name=name, type=word) for name, word in types.items()))


def fitted(table, wanted, **options):
    fitting = Fitting(table.schema, wanted, **options)
    return pa.Table.from_batches([fitting(batch) for batch in table.to_batches()], fitting.target)


def test_columns_go_by_name_and_absent_ones_are_null():
    table = fitted(pa.table({"b": [1, 2], "a": ["x", "y"]}), schema(a="text", b="int64", c="date"))
    assert table.to_pylist() == [{"a": "x", "b": 1, "c": None}, {"a": "y", "b": 2, "c": None}]


@pytest.mark.parametrize(
    ("given", "word", "expected"),
    [
        (pa.array([1, None], pa.int8()), "int64", [1, None]),
        (pa.array([1, 2], pa.int64()), "int8", [1, 2]),
        (pa.array([1, 2], pa.uint32()), "float64", [1.0, 2.0]),
        (pa.array([1.0, 2.0]), "int32", [1, 2]),
        (pa.array([1.5], pa.float16()), "float32", [1.5]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "text", ["a", "b", "a"]),
        (pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array(["a", "b"], pa.string_view())), "text", ["b", None]),
        (pa.array(["a"], pa.large_string()), "text", ["a"]),
        (pa.array(["a"], pa.string_view()), "text", ["a"]),
        (pa.array([[1], None], pa.large_list(pa.int8())), "list(int64)", [[1], None]),
        (pa.array([None, None]), "text", [None, None]),
        (
            pa.array([1], pa.timestamp("s", "Asia/Muscat")),
            "moment",
            [datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)],
        ),
        (pa.array([1, None, 99_999_999]), "decimal(10, 2)", [decimal.Decimal("1.00"), None, decimal.Decimal("99999999.00")]),
        (pa.array([0.1, None]), "decimal(10, 2)", [decimal.Decimal("0.10"), None]),
        (pa.array([decimal.Decimal("0.10")]), "float64", [0.1]),
        (pa.array([{"x": 1}]), 'record("x": float64)', [{"x": 1.0}]),
    ],
)
def test_what_loses_nothing_is_converted(given, word, expected):
    assert fitted(pa.table({"a": given}), schema(a=word))["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("given", "word", "said"),
    [
        (pa.array([1, 300]), "int8", "rows 1 to 2 can be brought into it without loss"),
        (pa.array([1.5]), "int64", "without loss"),
        (pa.array([2**60 + 1]), "float64", "without loss"),
        (pa.array([10**8]), "decimal(10, 2)", "without loss"),
        (pa.array([0.125]), "decimal(10, 2)", "0.125 would be rounded"),
        (pa.array([decimal.Decimal("0.1234567890123456789")]), "float64", "would be rounded"),
        (pa.array([1.1]), "float32", "holds float64 where float32 is expected"),
        (pa.array(["1"]), "int64", "holds text where int64 is expected: convert it before"),
        (pa.array([1]), "text", "holds int64 where text is expected"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "moment", "without loss"),
        (pa.array([[1, 2]]), "vector(int64, 3)", r"holds list\(int64\) where vector\(int64, 3\)"),
    ],
)
def test_what_would_lose_something_is_refused(given, word, said):
    with pytest.raises(Invalid, match=f"Column 'a'.*{said}"):
        fitted(pa.table({"a": given}), schema(a=word))


def test_the_row_of_a_null_that_may_not_be_is_named():
    wanted = Schema(columns=(Column(name="a", type="int64", nullable=False),))
    batches = [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3, None]})]
    fitting = Fitting(batches[0].schema, wanted)
    fitting(batches[0])
    with pytest.raises(Invalid, match="Column 'a' may not be null, and is in row 4"):
        fitting(batches[1])
    with pytest.raises(Invalid, match="Column 'a' is missing and may not be null"):
        Fitting(pa.schema([("b", pa.int64())]), Schema(columns=(*wanted.columns, Column(name="b", type="int64"))))


def test_columns_that_nobody_expects_are_named():
    with pytest.raises(Invalid, match="columns that are not expected: z"):
        fitted(pa.table({"a": [1], "z": [1]}), schema(a="int64"))
    with pytest.raises(Invalid, match="two columns called 'a'"):
        fitted(pa.table([[1], [2]], names=["a", "a"]), None)


def test_times_without_a_zone_need_one():
    naive = pa.table({"at": pa.array(["2026-07-01T12:00:00"]).cast(pa.timestamp("us"))})
    with pytest.raises(Invalid, match="times without a zone"):
        fitted(naive, None)
    assert fitted(naive, None, time_zone="Asia/Muscat")["at"].to_pylist()[0].isoformat() == "2026-07-01T08:00:00+00:00"
    with pytest.raises(Invalid, match="There is no time zone 'Mars/Olympus'"):
        fitted(naive, None, time_zone="Mars/Olympus")
    with pytest.raises(Invalid, match="There is no time zone"):
        fitted(naive, None, time_zone="../../etc/passwd")


def test_types_that_tables_do_not_have_are_named():
    with pytest.raises(Invalid, match="Column 'a' has the type month_day_nano_interval"):
        fitted(pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), None)
