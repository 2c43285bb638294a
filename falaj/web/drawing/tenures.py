"""How much of what somebody had over time: a lane for each, as high as the share, with marks where something happened."""

from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight
from falaj.web.drawing.svg import element, picture, shortened

WIDE: Final = 1060.0
_LEFT: Final = 170.0
_RIGHT: Final = 24.0
_HIGH: Final = 44.0
_GAP: Final = 20.0
_ABOVE: Final = 16.0
_BELOW: Final = 22.0
_NARROWEST: Final = 2.0


@value
class Stretch:
    """From `start` to `end`, in any unit of time, it had this `share` of 1; a `faint` one got copies alone."""

    start: float
    end: float
    share: float
    words: str
    faint: bool = False


@value
class Mark:
    """`kind` names its colour."""

    at: float
    kind: str
    words: str


@value
class Lane:
    name: str
    note: str
    stretches: tuple[Stretch, ...]
    marks: tuple[Mark, ...] = ()


def tenures(lanes: Sequence[Lane], *, ends: tuple[str, str], label: str) -> Markup:
    """`ends` are words for the first and the last moment. Nothing where nobody ever had anything."""
    times = [at for lane in lanes for one in lane.stretches for at in (one.start, one.end)]
    if not times:
        return Markup("")
    x_of = straight(min(times), max(max(times), min(times) + 1e-9), _LEFT, WIDE - _RIGHT)
    drawn = [_lane(lane, _ABOVE + place * (_HIGH + _GAP), x_of) for place, lane in enumerate(lanes)]
    bottom = _ABOVE + len(lanes) * (_HIGH + _GAP)
    drawn.append(element("text", ends[0], x=_LEFT, y=bottom + 4, text_anchor="start"))
    drawn.append(element("text", ends[1], x=WIDE - _RIGHT, y=bottom + 4, text_anchor="end"))
    return picture(*drawn, width=WIDE, height=bottom + _BELOW, label=label, class_="tenures")


def _lane(lane: Lane, top: float, x_of: Callable[[float], float]) -> Markup:
    base = top + _HIGH
    drawn = [
        element("text", shortened(lane.name, _LEFT - 20), x=_LEFT - 12, y=top + 20, text_anchor="end", class_="tenures-name"),
        element("text", shortened(lane.note, _LEFT - 20), x=_LEFT - 12, y=top + 36, text_anchor="end"),
        element("line", x1=_LEFT, y1=top, x2=WIDE - _RIGHT, y2=top, class_="tenures-whole"),
        element("line", x1=_LEFT, y1=base, x2=WIDE - _RIGHT, y2=base, class_="tenures-base"),
    ]
    for one in lane.stretches:
        x, high = x_of(one.start), _HIGH * one.share
        shape = {"x": x, "y": base - high, "width": max(_NARROWEST, x_of(one.end) - x), "height": high}
        drawn.append(
            element("g", element("title", one.words), element("rect", **shape), class_="faint" if one.faint else "live")
        )
    drawn += [_mark(one, x_of(one.at), top) for one in lane.marks]
    return element("g", *drawn)


def _mark(one: Mark, x: float, top: float) -> Markup:
    points = f"{x - 5:.1f},{top - 10:.1f} {x + 5:.1f},{top - 10:.1f} {x:.1f},{top - 1:.1f}"
    return element("g", element("title", one.words), element("polygon", points=points), class_=f"tenures-mark {one.kind}")
