"""Points on two axes, some of them marked, and a line that they led to."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.svg import element, number, picture, shortened

WIDE: Final = 640.0
HIGH: Final = 240.0
LEFT: Final = 76.0
RIGHT: Final = 16.0
ABOVE: Final = 26.0
BELOW: Final = 30.0
_DECADES: Final = 100  # so far apart, what is positive is drawn by its logarithm


@value
class Dot:
    x: float
    y: float
    words: str
    kind: Literal["best", "plain", "faint"] = "plain"


def scatter(
    dots: Sequence[Dot], *, across: str, up: str, label: str, line: Sequence[tuple[float, float]] = (), whole: bool = False
) -> Markup:
    """Nothing where no dot is finite. `line` goes level from one point to the next; with `whole`, x counts something."""
    shown = [dot for dot in dots if math.isfinite(dot.x) and math.isfinite(dot.y)]
    if not shown:
        return Markup("")
    x_of, x_ticks = _scale([dot.x for dot in shown], LEFT, WIDE - RIGHT, whole=whole)
    y_of, y_ticks = _scale([dot.y for dot in shown], HIGH - BELOW, ABOVE)
    drawn = [_frame(across, up)]
    drawn += [element("text", text, x=x, y=HIGH - BELOW + 16, text_anchor="middle") for x, text in x_ticks]
    drawn += [element("text", text, x=LEFT - 8, y=y + 4, text_anchor="end") for y, text in y_ticks]
    if line:
        drawn.append(element("polyline", points=_stairs([(x_of(x), y_of(y)) for x, y in line]), class_="scatter-line"))
    for dot in sorted(shown, key=lambda dot: dot.kind == "best"):  # the marked ones on top
        title = element("title", dot.words)
        radius = 4.5 if dot.kind == "best" else 3.5
        drawn.append(element("circle", title, cx=x_of(dot.x), cy=y_of(dot.y), r=radius, class_=f"dot-{dot.kind}"))
    return picture(*drawn, width=WIDE, height=HIGH, label=label, class_="scatter")


def _frame(across: str, up: str) -> Markup:
    bottom = HIGH - BELOW
    return element(
        "g",
        element("line", x1=LEFT, y1=bottom, x2=WIDE - RIGHT, y2=bottom),
        element("line", x1=LEFT, y1=ABOVE, x2=LEFT, y2=bottom),
        element("text", shortened(across, 300), x=WIDE - RIGHT, y=HIGH - 2, text_anchor="end", class_="axis"),
        element("text", shortened(up, 300), x=8.0, y=14.0, class_="axis"),
        class_="scatter-frame",
    )


def _scale(
    values: Sequence[float], first: float, last: float, *, whole: bool = False
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """Where a value stands, and what is written at both ends."""
    low, high = min(values), max(values)
    if low == high:
        middle = (first + last) / 2
        return (lambda _: middle), [(middle, f"{low:.4g}")]
    by_decades = not whole and low > 0 and high / low >= _DECADES
    project: Callable[[float], float] = math.log if by_decades else (lambda at: at / 2)  # the whole span may be infinite
    start, span = project(low), project(high) - project(low)

    def place(at: float) -> float:
        return first + (project(at) - start) / span * (last - first)

    return place, [(first, f"{low:.4g}"), (last, f"{high:.4g}")]


def _stairs(points: Sequence[tuple[float, float]]) -> str:
    steps = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        steps += [(x, before), (x, y)]
    return " ".join(f"{number(x)},{number(y)}" for x, y in steps)
