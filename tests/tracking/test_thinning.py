"""A thinned curve looks like the whole one."""

import math

from hypothesis import given
from hypothesis import strategies as st

from falaj.tracking.thinning import thinned


@given(st.lists(st.floats(allow_nan=True, width=32), max_size=200), st.integers(2, 60))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    points = [(step, 0.0 if math.isnan(value) else value, math.isnan(value)) for step, value in enumerate(values)]
    behind = iter([*points, (-1, 0.0, False)])
    kept = thinned(behind, len(points), most)
    assert next(behind)[0] == -1, "exactly this curve's points are read"
    assert len(kept) <= most
    assert [point[0] for point in kept] == sorted({point[0] for point in kept})
    if len(points) <= most:
        assert kept == points
        return
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    numbers = [value for _, value, nan in points if not nan]
    if most >= 4 and numbers:
        shown = [value for _, value, nan in kept if not nan]
        assert (min(shown), max(shown)) == (min(numbers), max(numbers))


def test_every_stretch_shows_its_least_and_greatest() -> None:
    points = [(step, math.sin(step / 50), False) for step in range(10_000)]
    shown = {point[0] for point in thinned(iter(points), len(points), 202)}
    for start in range(1, 9_000, 300):
        stretch = points[start : start + 300]
        for extreme in (min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])):
            assert min(abs(step - extreme[0]) for step in shown) <= 100


def test_where_a_stretch_is_nan_it_shows_so() -> None:
    points = [(step, 0.0, True) for step in range(100)]
    assert len(thinned(iter(points), 100, 10)) == 6
