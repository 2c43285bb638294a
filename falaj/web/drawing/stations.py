"""A way from one end to the other: stations on a line, each with when it was reached, and between them how long it took."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.svg import element, picture, shortened

WIDE: Final = 980.0
_LINE: Final = 46.0
_RADIUS: Final = 9.0
_BELOW: Final = 30.0
_STEP: Final = 17.0
State: TypeAlias = Literal["done", "open", "troubled", "none"]


@value
class Station:
    """`lines` stand below the title, each cut where it is too long; `since` is how long after the one before, in words."""

    title: str
    state: State
    lines: tuple[str, ...] = ()
    since: str = ""


def stations(passed: Sequence[Station], *, label: str) -> Markup:
    """From left to right. One that was not reached is hollow, and the line to it is dashed."""
    if not passed:
        return Markup("")
    apart = WIDE / len(passed)
    tall = max(len(one.lines) for one in passed)
    drawn: list[Markup] = []
    for place, one in enumerate(passed):
        x = apart * (place + 0.5)
        if place:
            drawn.append(_way(x - apart, x, one))
        drawn.append(_stop(x, apart, one))
    return picture(*drawn, width=WIDE, height=_LINE + _BELOW + _STEP * (tall + 1), label=label, class_="stations")


def _way(start: float, end: float, to: Station) -> Markup:
    ends = {"x1": start + _RADIUS + 4, "y1": _LINE, "x2": end - _RADIUS - 4, "y2": _LINE}
    line = element("line", **ends, class_="stations-way none" if to.state == "none" else "stations-way")
    if not to.since:
        return line
    return element("g", line, element("text", to.since, x=(start + end) / 2, y=_LINE - 14, text_anchor="middle"))


def _stop(x: float, apart: float, one: Station) -> Markup:
    y = _LINE + _BELOW
    said = [element("text", one.title, x=x, y=y, text_anchor="middle", class_="stations-title")]
    said += [
        element("text", shortened(text, apart - 10), x=x, y=y + _STEP * (row + 1), text_anchor="middle")
        for row, text in enumerate(one.lines)
    ]
    words = element("title", ". ".join((one.title, *one.lines)))
    return element("g", words, element("circle", cx=x, cy=_LINE, r=_RADIUS), *_sign(x, one.state), *said, class_=one.state)


def _sign(x: float, state: State) -> list[Markup]:
    """Not by colour alone."""
    if state == "done":
        return [element("path", d=f"M{x - 4:g} {_LINE:g} l3 3.2 l5 -6", class_="stations-sign")]
    if state == "troubled":
        return [element("path", d=f"M{x:g} {_LINE - 4.5:g} v5 m0 3 v1", class_="stations-sign")]
    return []
