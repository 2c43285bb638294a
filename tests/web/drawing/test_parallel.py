"""Parallel coordinates of runs."""

from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st

from falaj.web.drawing.parallel import Axis, drawing

cells = st.none() | st.floats() | st.text(max_size=20)


@example([(0.0, 5e-324)])
@given(st.integers(1, 5).flatmap(lambda runs: st.lists(st.tuples(*[cells] * runs), min_size=1, max_size=5)))
def test_whatever_runs_hold_is_drawn_within_the_picture(columns: list[tuple[float | str | None, ...]]) -> None:
    names = [f"run {index}" for index in range(len(columns[0]))]
    axes = [Axis(name=f"axis {index}", cells=cells) for index, cells in enumerate(columns)]
    drawn = drawing(names, axes, "runs")
    if any(not text.isprintable() for column in columns for text in column if isinstance(text, str)):
        return  # what XML has no way to write, browsers leave out
    picture = ElementTree.fromstring(drawn)
    high = float(picture.attrib["height"])
    for line in picture.iter("polyline"):
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= float(picture.attrib["width"])
            assert 0 <= y <= high


def test_numbers_are_ordered_as_numbers_also_where_they_are_texts() -> None:
    picture = ElementTree.fromstring(
        drawing(["a", "b"], [Axis(name="lr", cells=("10", "9")), Axis(name="auc", cells=(0.9, 0.8))], "runs")
    )
    first, second = (line.attrib["points"].split() for line in picture.iter("polyline"))
    assert float(first[0].split(",")[1]) < float(second[0].split(",")[1])


def test_a_run_without_a_value_has_a_broken_line() -> None:
    axes = [Axis(name=name, cells=(1.0, cell)) for name, cell in (("a", 1.0), ("b", 2.0), ("c", None), ("d", 1.0), ("e", 2.0))]
    lines = list(ElementTree.fromstring(drawing(["x", "y"], axes, "runs")).iter("polyline"))
    assert len(lines) == 3
