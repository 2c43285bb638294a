"""Intervals that narrow, against the line of no difference."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.courses import HIGH, WIDE, Course, Place, courses

NUMBER = st.one_of(st.floats(-1e6, 1e6), st.just(math.inf), st.just(-math.inf), st.just(math.nan))


@given(st.lists(st.tuples(st.integers(0, 10**9), NUMBER, NUMBER, NUMBER), max_size=12), st.floats(0, 1e3))
def test_whatever_came_is_drawn_within_the_picture(rows: list[tuple[int, float, float, float]], least: float) -> None:
    places = tuple(Place(units=units, at=at, low=low, high=high) for units, at, low, high in rows)
    drawn = courses([Course(name="<b>2</b>", places=places)], least=least, label="How it went")
    finite = [row for row in rows if all(math.isfinite(one) for one in row)]
    if not finite:
        assert drawn == ""
        return
    picture = ElementTree.fromstring(drawn)
    for part in picture.iter("polygon"):
        for point in part.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDE
            assert 0 <= y <= HIGH


def test_the_interval_of_a_single_look_is_seen() -> None:
    places = (Place(units=10, at=0.0, low=-4.0, high=4.0),)
    picture = ElementTree.fromstring(courses([Course(name="2", places=places)], least=0.0, label="x"))
    bar = next(one for one in picture.iter("polyline") if "courses-single" in one.attrib["class"])
    top, bottom = (float(point.split(",")[1]) for point in bar.attrib["points"].split())
    assert bottom - top > HIGH / 2
    assert list(picture.iter("polygon")) == []


def test_a_wide_beginning_does_not_make_the_rest_flat() -> None:
    wide = Place(units=10, at=0.0, low=-400.0, high=400.0)
    narrow = [Place(units=100 * one, at=2.0, low=1.0, high=3.0) for one in range(1, 6)]
    picture = ElementTree.fromstring(courses([Course(name="2", places=(wide, *narrow))], least=0.0, label="x"))
    zero = next(one for one in picture.iter("line") if one.attrib.get("class") == "courses-zero")
    dot = next(iter(picture.iter("circle")))
    assert float(zero.attrib["y1"]) - float(dot.attrib["cy"]) > HIGH / 4
