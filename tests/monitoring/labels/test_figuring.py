"""Figures of whatever a model says and whatever came true: none raises, and none is made up."""

import math

from hypothesis import example, given, settings
from hypothesis import strategies as st

from falaj.monitoring.figuring import buckets_of
from falaj.monitoring.joined import Joined, Said

ANY_NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TRUTH = st.floats(-1e300, 1e300)
LARGEST = 1.7976931348623157e308


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ANY_NUMBER, TRUTH, TRUTH), min_size=20, max_size=40))
@example([(LARGEST, -1e300, 1e300), (-LARGEST, 1e300, -1e300), (0.5, 0.25, 1e300)] * 7)
def test_numbers_too_large_to_be_added_up_make_figures_that_say_so(rows: list[tuple[float, float, float]]):
    some = [
        Joined(revision=1, at=at, unit="", said=Said(answer=answer), truth=truth, values={"spent": value}, groups={})
        for at, (answer, truth, value) in enumerate(rows)
    ]
    (bucket,) = buckets_of(some, "whole")
    if bucket.kind == "numbers":
        rmse = next(one for one in bucket.figures if one.name == "RMSE")
        assert rmse.at >= 0
        assert not math.isnan(rmse.low)
    assert [one.rows for one in bucket.figures if one.name == "mean spent"] == [len(rows)]
