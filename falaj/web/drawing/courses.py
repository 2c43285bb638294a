"""How intervals narrowed as more came to be known: a band for each candidate, against the line of no difference."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight, ticks
from falaj.web.drawing.svg import element, number, picture

WIDE: Final = 880.0
HIGH: Final = 280.0
LEFT: Final = 64.0
RIGHT: Final = 18.0
ABOVE: Final = 14.0
BELOW: Final = 34.0


@value
class Place:
    """Once `units` were known."""

    units: int
    at: float
    low: float
    high: float


@value
class Course:
    name: str
    places: tuple[Place, ...]


def courses(several: Sequence[Course], *, least: float, label: str) -> Markup:
    """`least` is the difference that matters, 0 where nobody said. Nothing where no interval is finite yet."""
    known = [Course(name=one.name, places=tuple(place for place in one.places if _is_finite(place))) for one in several]
    units = [place.units for one in known for place in one.places]
    if not units:
        return Markup("")
    low, high = _range(known, least)
    y_of = straight(low, high, HIGH - BELOW, ABOVE)
    x_of = straight(0.0, max(max(units), 1) * 1.02, LEFT, WIDE - RIGHT)
    drawn = [_frame(low, high, float(max(units)), x_of, y_of)]
    drawn += [_level(end, y_of, "courses-least") for end in (-least, least) if least]
    drawn += [_course(one, place, x_of, y_of) for place, one in enumerate(known) if one.places]
    drawn.append(_level(0.0, y_of, "courses-zero"))
    return picture(*drawn, width=WIDE, height=HIGH, label=label, class_="courses")


def _is_finite(place: Place) -> bool:
    return all(math.isfinite(end) for end in (place.at, place.low, place.high))


def _range(several: Sequence[Course], least: float) -> tuple[float, float]:
    """Of the later half, so that the wide beginning does not make all that follows flat; what is wider stands at the rim."""
    ends = [0.0, -least, least]
    for one in several:
        later = one.places[len(one.places) // 2 :]
        ends += [end for place in later for end in (place.low, place.high)]
    room = (max(ends) - min(ends)) * 0.08 or 0.01
    return min(ends) - room, max(ends) + room


def _frame(low: float, high: float, units: float, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> Markup:
    drawn = []
    for at, text in ticks(low, high, about=5):
        drawn.append(element("line", x1=LEFT, y1=y_of(at), x2=WIDE - RIGHT, y2=y_of(at)))
        drawn.append(element("text", text, x=LEFT - 8, y=y_of(at) + 4, text_anchor="end"))
    for at, _ in ticks(0.0, max(units, 1.0), about=6):
        drawn.append(element("text", f"{at:,.0f}", x=x_of(at), y=HIGH - BELOW + 20, text_anchor="middle"))
    return element("g", *drawn, class_="courses-frame")


def _level(at: float, y_of: Callable[[float], float], kind: str) -> Markup:
    return element("line", x1=LEFT, y1=y_of(at), x2=WIDE - RIGHT, y2=y_of(at), class_=kind)


def _course(one: Course, place: int, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> Markup:
    places = [(x_of(each.units), each) for each in one.places]
    rim = [(x, y_of(each.high)) for x, each in places] + [(x, y_of(each.low)) for x, each in reversed(places)]
    last = one.places[-1]
    band = element("polygon", points=_points(rim), class_="courses-band")
    if len(places) == 1:  # a band without a width is not seen
        band = element("polyline", points=_points(rim), class_="courses-line courses-single")
    return element(
        "g",
        element("title", one.name),
        band,
        element("polyline", points=_points([(x, y_of(each.at)) for x, each in places]), class_="courses-line"),
        element("circle", cx=x_of(last.units), cy=y_of(last.at), r=4.0),
        class_=f"course series-{place % 10}",
    )


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in places)
