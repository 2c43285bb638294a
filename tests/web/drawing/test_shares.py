"""A split as a bar."""

import re

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.shares import Part, bar


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_widths_are_in_proportion_and_fill_the_bar(shares: list[int]) -> None:
    drawn = bar([Part(size=share, series=index) for index, share in enumerate(shares)], width=400)
    widths = [float(width) for width in re.findall(r' width="([\d.]+)"', drawn)]
    sized = [share for share in shares if share]
    assert len(widths) <= len(sized)  # what is thinner than a hundredth of a pixel has no width
    if sized:
        gaps = 2 * (len(sized) - 1)
        assert abs(sum(widths) + gaps - 400) < 0.5
    else:
        assert drawn == ""


def test_words_are_escaped() -> None:
    assert "<script>" not in bar([Part(size=1, series=0, words="<script>")])
