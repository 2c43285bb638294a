"""What is lost in each group of rows, and what it may be at most, against what is allowed there: one line for each."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight, ticks
from falaj.web.drawing.svg import element, number, picture, shortened

WIDE: Final = 680.0
LEFT: Final = 190.0
RIGHT: Final = 24.0
ABOVE: Final = 8.0
BELOW: Final = 40.0
ROW: Final = 26.0
MARGINS_SHOWN: Final = 3.0


@value
class Line:
    """All in the same unit: what was lost, at most what it is, and what was allowed."""

    name: str
    drop: float
    high: float
    margin: float
    ok: bool
    words: str


def intervals(lines: Sequence[Line], *, unit: str, label: str) -> Markup:
    if not lines:
        return Markup("")
    low, high = _range(lines)
    x_of = straight(low, high, LEFT, WIDE - RIGHT)
    height = ABOVE + ROW * len(lines) + BELOW
    drawn = [_frame(x_of, low, high, height, unit)]
    drawn += [_line(one, ABOVE + ROW * (place + 0.5), x_of, high) for place, one in enumerate(lines)]
    return picture(*drawn, width=WIDE, height=height, label=label, class_="intervals")


def _range(lines: Sequence[Line]) -> tuple[float, float]:
    """Groups of few rows may lose nearly anything: what goes far beyond what is allowed ends at the rim."""
    drops = [one.drop for one in lines if math.isfinite(one.drop)]
    margin = max(one.margin for one in lines)
    highs = [one.high for one in lines if math.isfinite(one.high)]
    most = max(MARGINS_SHOWN * margin, 1e-6)
    high = max(1.15 * margin, min(most, max([*highs, *drops], default=margin)), 1e-6)
    low = max(min([0.0, *drops]), -most)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _frame(x_of: Callable[[float], float], low: float, high: float, height: float, unit: str) -> Markup:
    bottom = height - BELOW
    words = [element("text", text, x=x_of(at), y=bottom + 16, text_anchor="middle") for at, text in ticks(low, high)]
    return element(
        "g",
        element("line", x1=LEFT, y1=bottom, x2=WIDE - RIGHT, y2=bottom),
        element("line", x1=x_of(0.0), y1=ABOVE, x2=x_of(0.0), y2=bottom, class_="intervals-zero"),
        *words,
        element("text", f"{unit} lost →", x=WIDE - RIGHT, y=height - 4, text_anchor="end", class_="axis"),
        class_="intervals-frame",
    )


def _line(one: Line, y: float, x_of: Callable[[float], float], high: float) -> Markup:
    start = x_of(one.drop) if math.isfinite(one.drop) else x_of(0.0)
    end = x_of(one.high) if math.isfinite(one.high) else WIDE - RIGHT
    beyond = not one.high <= high
    tip = " ".join(f"{number(x)},{number(y + dy)}" for x, dy in ((end - 6, -4.0), (end, 0.0), (end - 6, 4.0)))
    parts = [
        element("title", one.words),
        element("text", shortened(one.name, LEFT - 16), x=LEFT - 10, y=y + 4, text_anchor="end"),
        element("line", x1=start, y1=y, x2=end, y2=y, class_="interval"),
        element("polyline", points=tip, class_="interval")
        if beyond
        else element("line", x1=end, y1=y - 5, x2=end, y2=y + 5, class_="interval"),
        element("line", x1=x_of(one.margin), y1=y - 10, x2=x_of(one.margin), y2=y + 10, class_="interval-margin"),
        element("circle", cx=start, cy=y, r=4.0),
    ]
    return element("g", *parts, class_=f"interval-line {'holds' if one.ok else 'fails'}")
