"""How a column was spread and how it is now."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.overlays import HIGH, WIDE, Pair, overlay

SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1))


def drawn(*shares: tuple[float, float]) -> ElementTree.Element:
    pairs = [Pair(name=f"<b>{place}</b>", before=before, now=now) for place, (before, now) in enumerate(shares)]
    return ElementTree.fromstring(overlay(pairs, label="Spread"))


def heights(picture: ElementTree.Element, kind: str) -> list[float]:
    return [float(one.attrib["height"]) for one in picture.iter("rect") if one.attrib["class"] == kind]


def test_bars_are_as_high_as_their_shares() -> None:
    picture = drawn((0.5, 0.25), (0.25, 0.5), (0.25, 0.25))
    before, now = heights(picture, "spread-before"), heights(picture, "spread-now")
    assert before[0] == now[1] > before[1] == now[0] == now[2]
    assert abs(before[0] - 2 * now[0]) < 0.1


@given(st.lists(SHARES, min_size=1, max_size=40))
def test_everything_lies_within_the_picture_and_the_last_bin_is_named(shares: list[tuple[float, float]]) -> None:
    picture = drawn((0.5, 0.5), *shares)
    for one in picture.iter("rect"):
        assert 0 <= float(one.attrib["x"]) <= WIDE
        assert 0 <= float(one.attrib["y"]) <= HIGH
    assert any(one.text == f"<b>{len(shares)}</b>" for one in picture.iter("text"))


def test_where_there_is_no_row_nothing_is_drawn() -> None:
    assert overlay((), label="Spread") == ""
    assert overlay([Pair(name="a", before=0.0, now=5e-324)], label="Spread") == ""
