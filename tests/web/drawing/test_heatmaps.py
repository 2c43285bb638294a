"""Which features are how far from what they should be, window by window."""

from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.heatmaps import WIDE, Cell, Row, heat_map

NASTY = "<script>alert(1)</script>\"'&"


def cell(far: float = 0.0, alarm: bool = False) -> Cell:
    return Cell(far=far, alarm=alarm, words=NASTY)


def row(*cells: Cell | None, name: str = "amount", **more: bool) -> Row:
    return Row(name=name, link=f"/x?column={NASTY}", words=f"{name}: far", cells=cells, **more)


def drawn(*rows: Row, breaks: tuple[int, ...] = ()) -> ElementTree.Element:
    return ElementTree.fromstring(heat_map(rows, breaks=breaks))


def levels(picture: ElementTree.Element) -> list[str]:
    found = [one.attrib["class"] for one in picture.iter("rect")]
    return [name for name in found if name != "heat-ground"]


def test_the_further_the_darker_and_what_matters_begins_at_one() -> None:
    picture = drawn(row(*(cell(far) for far in (0.0, 0.3, 0.99, 1.0, 2.5, 100.0))))
    assert levels(picture) == ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5"]


def test_an_alarm_has_a_shape_of_its_own_and_a_gap_has_none() -> None:
    picture = drawn(row(cell(3.0, alarm=True), None, cell(3.0)))
    assert len(list(picture.iter("polygon"))) == 1
    assert levels(picture) == ["heat-4", "heat-4"]


def test_every_row_can_be_pressed_and_stops_no_keyboard() -> None:
    picture = drawn(row(cell(), cell()), row(cell(), cell(), name="country", chosen=True))
    links = list(picture.iter("a"))
    assert [one.attrib["tabindex"] for one in links] == ["-1", "-1"], "the names beside it are what a keyboard goes by"
    assert [one.attrib["class"] for one in links] == ["heat-row", "heat-row chosen"]
    assert links[0].attrib["href"] == f"/x?column={NASTY}", "escaped, and whole again when it is read"


@given(st.integers(1, 60), st.lists(st.integers(1, 59), max_size=8, unique=True))
def test_all_windows_lie_beside_each_other_within_the_picture(windows: int, breaks: list[int]) -> None:
    there = tuple(sorted(at for at in breaks if at < windows))
    picture = drawn(row(*(cell() for _ in range(windows))), breaks=there)
    places = [(float(one.attrib["x"]), float(one.attrib["width"])) for one in picture.iter("rect")][1:]
    assert len(places) == windows
    for (x, wide), (following, _) in pairwise(places):
        assert x + wide <= following + 0.02
    assert places[-1][0] + places[-1][1] <= WIDE + 0.02


def test_where_nothing_is_known_nothing_is_drawn() -> None:
    assert heat_map(()) == ""
