"""A metric's course in the space of a word."""

import math
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.sparklines import sparkline


def places(drawn: str) -> list[tuple[float, float]]:
    pairs = [pair for points in re.findall(r'points="([^"]*)"', drawn) for pair in points.split()]
    pairs += [f"{x},{y}" for x, y in re.findall(r'cx="([^"]*)" cy="([^"]*)"', drawn)]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in pairs)]


@given(st.lists(st.floats(), max_size=50))
def test_any_numbers_stay_within_the_picture(values: list[float]) -> None:
    drawn = sparkline(values, width=80, height=20)
    if drawn:
        ElementTree.fromstring(drawn)
    assert bool(drawn) == any(math.isfinite(value) for value in values)
    for x, y in places(drawn):
        assert 0 <= x <= 80
        assert 0 <= y <= 20


def test_a_rising_metric_rises() -> None:
    line = places(sparkline([1.0, 2.0, 3.0]))[:3]
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted((y for _, y in line), reverse=True)


def test_what_is_not_a_number_is_a_gap() -> None:
    assert sparkline([1.0, 2.0, math.nan, 3.0, math.inf, 4.0, 5.0]).count("<polyline") == 2


def test_a_metric_that_never_moves_is_a_line_in_the_middle() -> None:
    assert {y for _, y in places(sparkline([7.0, 7.0, 7.0], height=20))} == {10.0}
