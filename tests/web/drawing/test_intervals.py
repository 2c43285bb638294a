"""What is lost against what is allowed, group by group."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.intervals import WIDE, Line, intervals

SHARE = st.floats(min_value=-100, max_value=100)


def line(drop: float, high: float, margin: float, ok: bool = True) -> Line:
    return Line(name="<b>slice</b>", drop=drop, high=high, margin=margin, ok=ok, words="words")


def drawn(*lines: Line) -> ElementTree.Element:
    return ElementTree.fromstring(intervals(lines, unit="points", label="Losses"))


@given(st.lists(st.tuples(SHARE, st.one_of(SHARE, st.just(math.inf)), st.floats(0.001, 50)), min_size=1, max_size=8))
def test_every_group_is_drawn_within_the_picture(groups: list[tuple[float, float, float]]) -> None:
    picture = drawn(*(line(drop, high, margin) for drop, high, margin in groups))
    assert len(list(picture.iter("circle"))) == len(groups)
    for part in picture.iter("line"):
        assert 0 <= float(part.attrib["x1"]) <= WIDE
        assert 0 <= float(part.attrib["x2"]) <= WIDE


def test_what_is_allowed_lies_between_what_holds_and_what_fails() -> None:
    picture = drawn(line(0.1, 0.3, 0.5), line(0.6, 0.9, 0.5, ok=False))
    kinds = [one.attrib["class"] for one in picture.iter("g") if "interval-line" in one.attrib.get("class", "")]
    assert kinds == ["interval-line holds", "interval-line fails"]
    ends = [float(one.attrib["x2"]) for one in picture.iter("line") if one.attrib.get("class") == "interval"][::2]
    margin = next(float(one.attrib["x1"]) for one in picture.iter("line") if one.attrib.get("class") == "interval-margin")
    assert ends[0] < margin < ends[1]


def test_a_group_that_shows_nothing_ends_in_an_arrow_and_squeezes_no_other() -> None:
    picture = drawn(line(0.1, 0.3, 0.5), line(math.nan, 100.0, 0.5, ok=False))
    assert len(list(picture.iter("polyline"))) == 1
    margin = next(float(one.attrib["x1"]) for one in picture.iter("line") if one.attrib.get("class") == "interval-margin")
    assert margin > WIDE / 3


def test_nothing_is_drawn_of_nothing() -> None:
    assert intervals([], unit="points", label="Losses") == ""
