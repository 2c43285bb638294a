"""Shares as bars and GPUs as squares."""

import re

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.cards import SIDE, card
from falaj.web.drawing.quotas import WIDE, meter, share_bar

_AMOUNTS = st.integers(0, 10**9)


@given(owed=_AMOUNTS, own=_AMOUNTS, borrowed=_AMOUNTS, lent=_AMOUNTS, whole=_AMOUNTS)
def test_the_parts_of_a_bar_lie_one_behind_the_other_and_stay_within_it(
    owed: int, own: int, borrowed: int, lent: int, whole: int
) -> None:
    lent = min(lent, owed)
    own = min(own, owed - lent)
    drawn = share_bar(owed=owed, used=own + borrowed, borrowed=borrowed, lent=lent, whole=whole)
    parts = [(float(x), float(wide)) for x, wide in re.findall(r'x="([\d.]+)" y="1" width="([\d.]+)"', drawn)]
    ends = [x + wide for x, wide in parts]
    assert all(abs(x - end) < 0.05 for (x, _), end in zip(parts[1:], ends, strict=False))
    assert all(end <= WIDE + 0.05 for end in ends)
    assert (drawn == "") == (owed + borrowed + whole == 0)


def test_what_is_borrowed_lies_beyond_what_is_owed() -> None:
    drawn = share_bar(owed=1, used=2, borrowed=1, lent=0, whole=4)
    assert re.findall(r'x="([\d.]+)" y="1" width="([\d.]+)" height="10" class="part-(\w+)"', drawn) == [
        ("0", "50", "own"),
        ("50", "50", "borrowed"),
    ]


@given(part=st.floats(-1, 2), beneath=st.floats(-1, 2))
def test_nothing_sticks_out_of_a_meter_or_a_card(part: float, beneath: float) -> None:
    wide = [float(found) for found in re.findall(r'<rect[^>]* width="([\d.]+)"', meter(part, beneath=beneath))]
    high = [float(found) for found in re.findall(r'<rect[^>]* height="([\d.]+)"', card(held=part, busy=beneath))]
    assert max(wide) <= WIDE
    assert max(high) <= SIDE
