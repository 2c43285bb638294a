"""A figure over time, with how sure it is: a dot for each span, a line from low to high through it."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight, ticks
from falaj.web.drawing.svg import element, number, picture

WIDE: Final = 880.0
HIGH: Final = 240.0
LEFT: Final = 58.0
RIGHT: Final = 18.0
ABOVE: Final = 12.0
BELOW: Final = 12.0
APART: Final = 9.0  # courses stand so far from each other at one moment, or less where there are many
MOST_APART: Final = 30.0  # all of them together
ENDS: Final = 16.0  # more, where the ends of the time are named


@value
class Point:
    """`at` is in any unit of time. Those of one `series` are joined; a `faint` one is not measured, but estimated."""

    at: float
    middle: float
    low: float
    high: float
    series: int
    words: str
    faint: bool = False


def bands(points: Sequence[Point], *, label: str, ends: tuple[str, str] | None = None) -> Markup:
    """Nothing where nothing is finite. `ends` are words for the first and the last moment."""
    there = [one for one in points if math.isfinite(one.middle)]
    if not there:
        return Markup("")
    low, high = _range(there)
    y_of = straight(low, high, HIGH - BELOW, ABOVE)
    first, last = min(one.at for one in there), max(one.at for one in there)
    margin = (last - first) * 0.02 or 1.0
    x_of = straight(first - margin, last + margin, LEFT, WIDE - RIGHT)
    drawn = [_frame(low, high, y_of)]
    courses = [list(some) for _, some in groupby(sorted(there, key=_order), key=lambda one: (one.series, one.faint))]
    for course, aside in zip(courses, _asides(len(courses)), strict=True):
        kind = f"series-{course[0].series}{' faint' if course[0].faint else ''}"
        drawn.append(_course(course, x_of, y_of, kind, aside))
    if ends is not None:
        drawn += _named(ends, first == last)
    return picture(*drawn, width=WIDE, height=HIGH + (ENDS if ends else 0.0), label=label, class_="bands")


def _named(ends: tuple[str, str], at_once: bool) -> list[Markup]:
    if at_once:
        return [element("text", ends[0], x=(LEFT + WIDE - RIGHT) / 2, y=HIGH + 8, text_anchor="middle")]
    return [
        element("text", ends[0], x=LEFT, y=HIGH + 8, text_anchor="start"),
        element("text", ends[1], x=WIDE - RIGHT, y=HIGH + 8, text_anchor="end"),
    ]


def _asides(courses: int) -> list[float]:
    """How far aside each course is drawn: two as good at the same moment would lie over each other."""
    step = min(APART, MOST_APART / max(1, courses - 1))
    return [(place - (courses - 1) / 2) * step for place in range(courses)]


def _order(one: Point) -> tuple[int, bool, float]:
    return one.series, one.faint, one.at


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """Of what is finite; an interval without an end goes to the rim."""
    ends = [end for one in points for end in (one.low, one.middle, one.high) if math.isfinite(end)]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.08 or max(abs(high) * 0.1, 0.01)
    return low - room, high + room


def _frame(low: float, high: float, y_of: Callable[[float], float]) -> Markup:
    lines = []
    for at, text in ticks(low, high, about=4):
        lines.append(element("line", x1=LEFT, y1=y_of(at), x2=WIDE - RIGHT, y2=y_of(at)))
        lines.append(element("text", text, x=LEFT - 8, y=y_of(at) + 4, text_anchor="end"))
    return element("g", *lines, class_="bands-frame")


def _course(
    points: Sequence[Point], x_of: Callable[[float], float], y_of: Callable[[float], float], kind: str, aside: float
) -> Markup:
    places = [(x_of(one.at) + aside, y_of(one.middle), one) for one in points]
    drawn = [element("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y, _ in places), class_="bands-line")]
    for x, y, one in places:
        ends = [y_of(end) if math.isfinite(end) else rim for end, rim in ((one.low, HIGH - BELOW), (one.high, ABOVE))]
        drawn.append(
            element(
                "g",
                element("title", one.words),
                element("line", x1=x, y1=ends[0], x2=x, y2=ends[1], class_="bands-sure"),
                element("circle", cx=x, cy=y, r=3.6),
            )
        )
    return element("g", *drawn, class_=f"bands-course {kind}")
