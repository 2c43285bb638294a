"""How a column was spread and how it is now, one behind the other. The numbers stand in a table beside it."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight, ticks
from falaj.web.drawing.svg import element, picture, shortened

WIDE: Final = 560.0
HIGH: Final = 280.0
LEFT: Final = 46.0
ABOVE: Final = 8.0
BELOW: Final = 24.0
_LABEL: Final = 96.0  # pixels that a bin's name should have
_LEAST: Final = 1e-9  # a share that is less is that of no row
_NARROWER: Final = 0.22  # of a bin, on both sides: what is seen stands in front


@value
class Pair:
    """Shares of the rows, from 0 to 1."""

    name: str
    before: float
    now: float


def overlay(pairs: Sequence[Pair], *, label: str) -> Markup:
    """Nothing where there is no row to draw."""
    most = max((max(pair.before, pair.now) for pair in pairs), default=0.0)
    if most < _LEAST:
        return Markup("")
    bottom, top = HIGH - BELOW, most * 1.06
    y_of = straight(0.0, top, bottom, ABOVE)
    wide = (WIDE - LEFT) / len(pairs)
    drawn = [_frame(top, bottom, y_of)]
    for place, pair in enumerate(pairs):
        x = LEFT + place * wide
        words = element("title", f"{pair.name}: {pair.before:.1%} before, {pair.now:.1%} now")
        before, now = y_of(pair.before), y_of(pair.now)
        inset = wide * _NARROWER
        drawn.append(
            element(
                "g",
                words,
                element("rect", x=x + 1, y=before, width=wide - 2, height=bottom - before, class_="spread-before"),
                element("rect", x=x + inset, y=now, width=wide - 2 * inset, height=bottom - now, class_="spread-now"),
            )
        )
    drawn += [
        element("text", shortened(pairs[place].name, room), x=x, y=HIGH - 6, text_anchor=anchor)
        for place, x, anchor, room in _labelled(len(pairs), wide)
    ]
    return picture(*drawn, width=WIDE, height=HIGH, label=label, class_="spread")


def _frame(top: float, bottom: float, y_of: Callable[[float], float]) -> Markup:
    lines = []
    for at, _ in ticks(0.0, top, about=4):
        y = y_of(at)
        lines.append(element("line", x1=LEFT, y1=y, x2=WIDE, y2=y, class_="spread-grid" if at else "spread-base"))
        lines.append(element("text", f"{at:.0%}" if top >= 0.04 else f"{at:.1%}", x=LEFT - 6, y=y + 4, text_anchor="end"))
    return element("g", *lines, element("line", x1=LEFT, y1=bottom, x2=WIDE, y2=bottom, class_="spread-base"))


def _labelled(bins: int, wide: float) -> list[tuple[int, float, str, float]]:
    """Which bins are named, where, and with how much room; the last always is, for it is that of what is missing."""
    last = bins - 1
    if wide >= _LABEL:
        return [(place, LEFT + (place + 0.5) * wide, "middle", wide) for place in range(bins)]
    every = math.ceil(_LABEL / wide)
    named = [place for place in range(0, last, every) if last - place >= every or place == 0]
    return [*((place, LEFT + place * wide, "start", every * wide) for place in named), (last, WIDE, "end", _LABEL)]
