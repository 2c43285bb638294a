"""Points on two axes."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.scatter import Dot, scatter


def drawn(dots: list[Dot], **more) -> ElementTree.Element:
    return ElementTree.fromstring(scatter(dots, across="trial", up="loss", label="Losses", **more))


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=20))
def test_whatever_is_finite_is_drawn_within_the_picture(pairs: list[tuple[float, float]]) -> None:
    dots = [Dot(x=x, y=y, words=f"{x} {y}") for x, y in pairs]
    finite = [dot for dot in dots if abs(dot.x) < float("inf") and abs(dot.y) < float("inf")]
    if not finite:
        assert scatter(dots, across="trial", up="loss", label="Losses") == ""
        return
    picture = drawn(dots, line=[(dot.x, dot.y) for dot in finite])
    assert len(list(picture.iter("circle"))) == len(finite)
    for circle in picture.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= float(picture.attrib["width"])
        assert 0 <= float(circle.attrib["cy"]) <= float(picture.attrib["height"])


def test_higher_values_stand_higher_and_decades_apart_by_their_logarithm() -> None:
    heights = [float(circle.attrib["cy"]) for circle in drawn([Dot(x=n, y=10.0**n, words="") for n in range(4)]).iter("circle")]
    assert heights == sorted(heights, reverse=True)
    assert round(heights[0] - heights[1], 1) == round(heights[2] - heights[3], 1)


def test_marked_dots_come_last_and_what_they_mean_is_told() -> None:
    picture = drawn([Dot(x=0, y=1, words="trial 0", kind="best"), Dot(x=1, y=2, words="<b>trial 1</b>")])
    circles = list(picture.iter("circle"))
    assert [circle.attrib["class"] for circle in circles] == ["dot-plain", "dot-best"]
    assert circles[0].find("title").text == "<b>trial 1</b>"
