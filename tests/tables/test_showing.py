"""Rows for people: plain JSON, whatever they were."""

import datetime
import decimal
import json
import math

import pyarrow as pa
from hypothesis import given

from falaj.tables.showing import shown
from tests.tables.values import tables


@given(tables())
def test_any_rows_are_json(table):
    rows = [row for batch in table.to_batches() for row in shown(batch)]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert len(rows) == table.num_rows


def test_what_json_has_not_is_text():
    columns = {
        "at": [datetime.datetime(2026, 3, 29, 1, tzinfo=datetime.UTC)],
        "far": pa.array([10**18], pa.timestamp("us", "UTC")),
        "n": [math.nan],
        "m": [decimal.Decimal("1.50")],
        "b": [b"\xff"],
        "r": [{"x": [math.inf, None]}],
        "i": [2**60],
        "t": ["x"],
    }
    assert shown(pa.record_batch(columns)) == [
        ["2026-03-29T01:00:00Z", "1000000000000000000", "nan", "1.50", "/w==", {"x": ["inf", None]}, 2**60, "x"]
    ]
