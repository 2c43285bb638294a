"""Numbers and times of runs, as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.web.experiments.numbers import duration_text, moment_of, number_text


@pytest.mark.parametrize(
    ("value", "text"), [(0.123456789, "0.12346"), (3.0, "3"), (1e300, "1e+300"), (math.nan, "NaN"), (-math.inf, "-∞")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, ""),
        (-5, ""),
        (12, "12 ms"),
        (1500, "1.5 s"),
        (65_000, "1 min 5 s"),
        (7_260_000, "2 h 1 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_two_units_at_most(milliseconds: int | None, text: str) -> None:
    assert duration_text(milliseconds) == text


@given(st.integers(-(2**62), 2**62))
def test_whatever_a_client_says_is_some_day(milliseconds: int) -> None:
    assert str(Moment(moment_of(milliseconds)))[:4].isdigit()
