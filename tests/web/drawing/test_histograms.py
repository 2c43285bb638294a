"""How values are spread, as bars."""

import re

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.histograms import HIGH, WIDE, histogram


@given(st.lists(st.integers(0, 10**12), max_size=40))
def test_every_count_that_is_not_zero_is_seen_within_the_frame(counts: list[int]) -> None:
    drawn = histogram(counts, [str(place) for place in range(len(counts) + 1)], label="spread")
    bars = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)
    if not any(counts):
        assert drawn == ""
        return
    assert len(bars) == len(counts)
    for count, bar in zip(counts, bars, strict=True):
        x, y, wide, high = map(float, bar)
        assert (high > 0) == (count > 0)
        assert 0 <= y <= HIGH
        assert x + wide <= WIDE


def test_edges_that_do_not_fit_draw_nothing() -> None:
    assert histogram([1, 2], ["0", "1"], label="x") == ""


def test_words_are_escaped() -> None:
    assert "<script>" not in histogram([1], ["<script>", "<script>"], label='"<script>')
