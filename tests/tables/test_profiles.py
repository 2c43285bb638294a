"""Profiles: true to the rows they are of, the same from parts as from the whole, and plain JSON."""

import datetime
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from falaj.base.errors import Invalid
from falaj.tables.masking import shown_profile
from falaj.tables.profiles import Profiling, merged
from falaj.tables.schemas import Column, Schema
from tests.tables.values import schema_of, tables

RANDOM = np.random.default_rng(7)


def profile(table, rows=10_000):
    profiling = Profiling(schema_of(table))
    for batch in table.to_batches(max_chunksize=rows):
        profiling.add(batch)
    return json.loads(json.dumps(profiling.profile(), allow_nan=False))


def column(table, name="a", **options):
    return next(one for one in profile(table, **options)["columns"] if one["name"] == name)


def test_numbers_are_described():
    values = RANDOM.normal(100, 15, 200_000)
    found = column(pa.table({"a": values}))
    assert (found["nulls"], found["nans"], found["min"], found["max"]) == (0, 0, values.min(), values.max())
    assert found["mean"] == pytest.approx(values.mean())
    assert found["deviation"] == pytest.approx(values.std())
    for rank, value in found["quantiles"].items():
        assert abs((values <= value).mean() - float(rank)) < 0.02
    assert found["distinct"] == pytest.approx(200_000, rel=0.05)
    histogram = found["histogram"]
    edges = np.array(histogram["edges"])
    counted = np.histogram(values, edges)[0]
    assert np.abs(np.array(histogram["counts"]) - counted).max() < 0.03 * len(values)
    assert sum(histogram["counts"]) + histogram["below"] + histogram["above"] == pytest.approx(len(values), abs=30)


def test_one_value_far_out_does_not_hide_the_others():
    found = column(pa.table({"a": [*range(1000), 10**12]}))
    assert found["max"] == 10**12
    assert found["histogram"]["edges"][-1] < 2000
    assert found["histogram"]["above"] >= 1


def test_few_values_are_counted_exactly_and_the_frequent_ones_named():
    values = ["red"] * 5000 + ["green"] * 3000 + [None] * 100 + [f"other {number}" for number in range(500)]
    found = column(pa.table({"a": values}))
    assert (found["nulls"], found["distinct"], found["distinct_is_exact"]) == (100, 502, True)
    assert found["top"][:2] == [["red", 5000], ["green", 3000]]
    assert (found["shortest"], found["longest"]) == (3, 9)


def test_frequent_values_are_found_in_a_sample_of_many_rows():
    values = np.where(RANDOM.random(400_000) < 0.1, 7, RANDOM.integers(1000, 10**9, 400_000))
    top = column(pa.table({"a": values}))["top"]
    assert top[0][0] == 7
    assert top[0][1] == pytest.approx(40_000, rel=0.15)


@pytest.mark.parametrize("count", [1, 1000, 1025, 5000, 40_000, 300_000])
def test_different_values_are_counted_to_within_some_in_a_hundred(count):
    for values in (np.arange(count), np.arange(count) * 1e-3, [f"somebody's name {number}" for number in range(count)]):
        found = column(pa.table({"a": pa.array(values).take(pa.array(RANDOM.integers(0, count, 2 * count)))}))
        assert found["distinct"] == pytest.approx(count * (1 - math.exp(-2)), rel=0.05, abs=60)
    every = column(pa.table({"a": pa.array([*range(count), None])}))["distinct"]
    assert every == pytest.approx(count, rel=0.05)
    assert every <= count


def test_what_is_no_number_and_numbers_that_are_none():
    found = column(pa.table({"a": [1.0, math.nan, math.inf, None]}))
    assert (found["nulls"], found["nans"], found["min"], found["max"], found["mean"]) == (1, 1, 1.0, "inf", 1.0)
    at = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    assert column(pa.table({"a": [at]}))["max"] == "2026-01-02T03:00:00Z"
    assert column(pa.table({"a": [at.date()]}))["min"] == "2026-01-02"
    assert column(pa.table({"a": pa.array(["1.50", "-2.25"]).cast(pa.decimal128(10, 2))}))["min"] == "-2.25"
    assert column(pa.table({"a": [2**63 - 1, 0]}))["max"] == 2**63 - 1
    assert column(pa.table({"a": [True, True, False]}))["top"] == [[True, 2], [False, 1]]
    assert column(pa.table({"a": [[1], [1, 2], None]}))["longest"] == 2
    assert column(pa.table({"a": pa.nulls(3)}))["nulls"] == 3
    assert column(pa.table({"a": pa.array([2**31 - 1], pa.date32())}))["max"] == str(2**31 - 1)  # no calendar goes so far


@given(tables())
@settings(max_examples=40)
def test_any_table_has_a_profile_and_half_and_half_make_the_whole(table):
    whole, middle = profile(table), table.num_rows // 2
    halves = [profile(table.slice(0, middle)), profile(table.slice(middle))]
    again = json.loads(json.dumps(merged(halves, schema_of(table)), allow_nan=False))
    for one, other in zip(whole["columns"], again["columns"], strict=True):
        for said in ("name", "type", "nulls", "nans", "distinct", "min", "max", "shortest", "longest", "top"):
            assert one.get(said) == other.get(said)
    assert again["rows"] == table.num_rows


def test_profiles_of_parts_make_that_of_the_version():
    values = RANDOM.exponential(1.0, 300_000)
    table = pa.table({"a": values, "t": RANDOM.choice(["x", "y"], 300_000, p=[0.9, 0.1])})
    parts = [profile(table.slice(start, length)) for start, length in ((0, 250_000), (250_000, 100), (250_100, 49_900))]
    found, text = merged(parts, schema_of(table))["columns"]
    assert found["mean"] == pytest.approx(values.mean())
    assert found["deviation"] == pytest.approx(values.std())
    for rank, value in found["quantiles"].items():
        assert abs((values <= value).mean() - float(rank)) < 0.02
    assert found["distinct"] == pytest.approx(300_000, rel=0.05)
    assert [one[0] for one in text["top"]] == ["x", "y"]
    assert text["top"][1][1] == pytest.approx(30_000, rel=0.1)


def test_columns_that_were_renamed_widened_or_came_later_are_merged():
    early = profile(pa.table({"n": pa.array([1, 2, 3], pa.int32())}))
    late = profile(pa.table({"amount": [4, 5], "note": ["a", None]}))
    now = Schema(columns=(Column(name="amount", type="int64"), Column(name="note", type="text")))
    whole = merged([early, late], now, [{"n": "amount"}, None])
    amount, note = whole["columns"]
    assert (whole["rows"], amount["type"], amount["min"], amount["max"], amount["distinct"]) == (5, "int64", 1, 5, 5)
    assert (note["nulls"], note["distinct"]) == (4, 1)
    with pytest.raises(Invalid, match="another format"):
        merged([{**early, "format": 99}], now)


def test_what_is_shown_has_no_sketches_and_nothing_of_what_is_masked():
    whole = profile(pa.table({"name": ["Ann", "Bob"], "n": [1, 2]}))
    name, number = shown_profile(whole, masked=("name",))["columns"]
    assert name == {"name": "name", "type": "text", "nulls": 0, "distinct": 2, "distinct_is_exact": True}
    assert "state" not in number
    assert number["max"] == 2
