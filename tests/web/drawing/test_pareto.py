"""Candidates by speed and loss."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.pareto import HIGH, WIDE, Mark, front_line, pareto

SHAPES = {"certified": "circle", "original": "circle", "made": "rect", "refused": "polygon", "dropped": "path"}


def mark(fast: float, lost: float, kind: str = "certified", **more) -> Mark:
    return Mark(fast=fast, lost=lost, size=more.pop("size", 1000), kind=kind, words=f"{kind} {fast}", **more)  # type: ignore[arg-type]


def drawn(*marks: Mark, allowed: float = 0.5) -> ElementTree.Element:
    return ElementTree.fromstring(pareto(marks, allowed=allowed, unit="points", label="Speed and loss"))


def groups(picture: ElementTree.Element) -> list[ElementTree.Element]:
    return [one for one in picture.iter("g") if "pareto-mark" in one.attrib.get("class", "")]


@given(st.lists(st.tuples(st.floats(), st.floats(), st.integers(0, 2**50)), max_size=12), st.sampled_from((0.0, 0.5, 99.0)))
def test_whatever_was_measured_is_drawn_within_the_picture(given_: list[tuple[float, float, int]], allowed: float) -> None:
    marks = [mark(fast, lost, size=size, name="n" * 40) for fast, lost, size in given_]
    text = pareto(marks, allowed=allowed, unit="points", label="Speed and loss")
    measured = [one for one in marks if abs(one.fast) < 1e9 and abs(one.lost) < 1e9]
    if not measured:
        assert text == ""
        return
    circles = [one.find("circle") for one in groups(ElementTree.fromstring(text))]
    assert len(circles) == len(measured)
    for circle in circles:
        assert circle is not None
        assert 0 <= float(circle.attrib["cx"]) <= WIDE
        assert 0 <= float(circle.attrib["cy"]) <= HIGH


def test_what_became_of_each_is_told_by_its_shape_and_in_words() -> None:
    marks = [mark(1 + number, 0.1, kind, link=f"#{kind}") for number, kind in enumerate(SHAPES)]
    found = {one.attrib["class"].rpartition("mark-")[2]: one for one in groups(drawn(*marks))}
    assert {kind: [part.tag for part in one][1] for kind, one in found.items()} == SHAPES
    assert {one.findtext("title") for one in found.values()} == {one.words for one in marks}
    assert {one.attrib["href"] for one in drawn(*marks).iter("a")} == {f"#{kind}" for kind in SHAPES}


def test_the_better_stand_higher_the_faster_to_the_right_and_the_hopeless_at_the_rim() -> None:
    picture = drawn(mark(1, 0.0), mark(2, 0.2), mark(3, 0.4), mark(4, 61.0, "dropped"), mark(5, 30.0, "refused"))
    places = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in picture.iter("circle")]
    assert sorted(places) == sorted(places, key=lambda place: place[1])
    [limit] = [one for one in picture.iter("g") if one.attrib.get("class") == "pareto-limit"]
    assert all(y < float(limit.find("line").attrib["y1"]) for _, y in places)  # type: ignore[union-attr]


def test_the_front_leaves_out_what_is_slower_and_worse() -> None:
    front = [mark(fast, lost, front=True) for fast, lost in ((1, 0.0), (3, 0.4), (2, 0.5), (2, 0.2))]
    marks = [*front, mark(9, 0.9)]
    assert front_line(marks) == [(1, 0.0), (2, 0.2), (3, 0.4)]
    assert [one.tag for one in drawn(*marks).iter("polyline")] == ["polyline"]


def test_a_larger_model_has_a_larger_mark_and_no_name_lies_over_another() -> None:
    picture = drawn(mark(1, 0.1, size=100), mark(2, 0.1, size=400), *(mark(3, 0.1, name=f"alike-{n}") for n in range(5)))
    small, large = sorted((float(one.attrib["r"]) for one in picture.iter("circle")), reverse=True)[-2:][::-1]
    assert small <= large
    assert len([one for one in picture.iter("text") if one.attrib.get("class") == "pareto-name"]) <= 2
