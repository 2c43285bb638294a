"""A figure over time, with how sure it is."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.bands import HIGH, MOST_APART, WIDE, Point, bands

NUMBER = st.floats(-1e6, 1e6)


def point(at: float, middle: float, low: float | None = None, high: float | None = None, **more: bool | int) -> Point:
    given_low, given_high = middle if low is None else low, middle if high is None else high
    return Point(at=at, middle=middle, low=given_low, high=given_high, series=int(more.pop("series", 1)), words="<b>", **more)  # type: ignore[arg-type]


def drawn(*points: Point) -> ElementTree.Element:
    return ElementTree.fromstring(bands(points, label="Accuracy"))


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=10))
def test_every_point_is_drawn_within_the_picture(values: list[tuple[float, float]]) -> None:
    picture = drawn(*(point(at, middle, middle - 1, middle + 1) for at, middle in values))
    dots = list(picture.iter("circle"))
    assert len(dots) == len(values)
    for one in dots:
        assert 0 <= float(one.attrib["cx"]) <= WIDE
        assert 0 <= float(one.attrib["cy"]) <= HIGH


def test_revisions_and_estimates_are_courses_of_their_own() -> None:
    picture = drawn(point(0, 0.9), point(1, 0.8), point(1, 0.7, series=2), point(2, 0.85, faint=True))
    kinds = [one.attrib["class"] for one in picture.iter("g") if "bands-course" in one.attrib.get("class", "")]
    assert kinds == ["bands-course series-1", "bands-course series-1 faint", "bands-course series-2"]


def test_revisions_that_are_as_good_at_the_same_moment_are_seen_beside_each_other() -> None:
    picture = drawn(*(point(0, 0.9, series=series) for series in range(1, 8)))
    places = [float(one.attrib["cx"]) for one in picture.iter("circle")]
    assert len(set(places)) == 7
    assert max(places) - min(places) <= MOST_APART


def test_an_interval_without_an_end_goes_to_the_rim_and_what_is_no_number_is_left_out() -> None:
    picture = drawn(point(0, 0.5, -math.inf, math.inf), point(1, 0.6), point(2, math.nan))
    assert len(list(picture.iter("circle"))) == 2
    whiskers = [one for one in picture.iter("line") if one.attrib.get("class") == "bands-sure"]
    assert float(whiskers[0].attrib["y2"]) < float(whiskers[0].attrib["y1"])
    assert bands([point(0, math.nan)], label="Accuracy") == ""
