"""Candidates by speed and by what they lose: faster to the right, worse downward, so that the best stand at the upper right.

The size of a mark is that of the model; its shape and colour say what became of it, and its words say it again.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.axes import straight, ticks
from falaj.web.drawing.svg import element, number, picture, shortened

WIDE: Final = 960.0
HIGH: Final = 380.0
LEFT: Final = 62.0
RIGHT: Final = 24.0
ABOVE: Final = 34.0
BELOW: Final = 40.0
SMALLEST: Final = 5.0
LARGEST: Final = 17.0
LABEL: Final = 150.0
MARGINS_SHOWN: Final = 2.5  # so many times what is allowed is shown; what is worse stands at the lower rim
_CHARACTER: Final = 6.2
_BOUND: Final = 1e9  # no measure, but a mistake
_LEAST: Final = 1e-9  # less than any two measures differ

Kind = Literal["certified", "made", "refused", "dropped", "original"]


@value
class Mark:
    """`lost` is in points. On the `front` nothing else is as fast, as good and as small. `name` is written beside it where
    there is room; `words` tell everything."""

    fast: float
    lost: float
    size: int
    kind: Kind
    words: str
    name: str = ""
    link: str = ""
    front: bool = False


Place = tuple[float, float]
Box = tuple[float, float, float, float]


def pareto(marks: Sequence[Mark], *, allowed: float, unit: str, label: str) -> Markup:
    """Nothing where nothing was measured. `allowed` is what may be lost, 0 for no line."""
    shown = [mark for mark in marks if abs(mark.fast) < _BOUND and abs(mark.lost) < _BOUND]
    if not shown:
        return Markup("")
    low, high = _range(shown, allowed)
    fastest = max(1.0, max(mark.fast for mark in shown)) * 1.08
    x_of = straight(0.0, fastest, LEFT, WIDE - RIGHT)
    y_of = straight(low, high, ABOVE, HIGH - BELOW)
    heaviest = max(1, max(mark.size for mark in shown))
    drawn = [_frame(x_of, y_of, fastest, low, high, unit)]
    if allowed:
        drawn.append(_limit(y_of(allowed)))
    if len(line := front_line(shown)) > 1:
        drawn.append(
            element("polyline", points=_stairs([(x_of(x), y_of(y)) for x, y in line]), class_="pareto-front", fill="none")
        )
    places = [(mark, x_of(mark.fast), y_of(mark.lost), _radius(mark, heaviest)) for mark in shown]
    drawn += [_mark(*place) for place in sorted(places, key=lambda place: -place[3])]  # the small ones on top
    drawn += _names(places)
    return picture(*drawn, width=WIDE, height=HIGH, label=label, class_="pareto")


def front_line(marks: Sequence[Mark]) -> list[Place]:
    """Of the marks on the front those that nothing beats in speed and loss alone, the slowest first."""
    line: list[Place] = []
    best = math.inf
    for mark in sorted((one for one in marks if one.front), key=lambda one: (-one.fast, one.lost)):
        if mark.lost < best:
            best = mark.lost
            line.append((mark.fast, mark.lost))
    return line[::-1]


def _range(marks: Sequence[Mark], allowed: float) -> tuple[float, float]:
    losses = [mark.lost for mark in marks]
    good = max((mark.lost for mark in marks if mark.kind == "certified"), default=0.0)
    most = max(MARGINS_SHOWN * allowed, good) if allowed else max(losses)
    high = max(1.5 * allowed, min(most, max(losses)))
    low = max(min(0.0, *losses), -most) if most > 0 else min(0.0, *losses)
    span = high - low if high - low > _LEAST else 1.0
    return low - 0.09 * span, high + 0.09 * span


def _radius(mark: Mark, heaviest: int) -> float:
    """The area is as the bytes are."""
    return max(SMALLEST, LARGEST * math.sqrt(max(0, mark.size) / heaviest))


def _frame(
    x_of: Callable[[float], float], y_of: Callable[[float], float], fastest: float, low: float, high: float, unit: str
) -> Markup:
    bottom, right = HIGH - BELOW, WIDE - RIGHT
    lines = [element("line", x1=LEFT, y1=y_of(at), x2=right, y2=y_of(at), class_="pareto-grid") for at, _ in ticks(low, high)]
    words = [element("text", text, x=LEFT - 8, y=y_of(at) + 4, text_anchor="end") for at, text in ticks(low, high)]
    words += [element("text", text, x=x_of(at), y=bottom + 16, text_anchor="middle") for at, text in ticks(0.0, fastest, 8)]
    return element(
        "g",
        *lines,
        element("line", x1=LEFT, y1=bottom, x2=right, y2=bottom),
        element("line", x1=LEFT, y1=ABOVE, x2=LEFT, y2=bottom),
        *words,
        element("text", "times as fast as the original →", x=right, y=HIGH - 4, text_anchor="end", class_="axis"),
        element("text", f"{unit} lost ↓", x=8.0, y=16.0, class_="axis"),
        class_="pareto-frame",
    )


def _limit(y: float) -> Markup:
    right = WIDE - RIGHT
    return element(
        "g",
        element("line", x1=LEFT, y1=y, x2=right, y2=y),
        element("text", "what may be lost", x=right, y=y - 5, text_anchor="end"),
        class_="pareto-limit",
    )


def _mark(mark: Mark, x: float, y: float, radius: float) -> Markup:
    shape = _shape(mark.kind, x, y, radius)
    classes = f"pareto-mark mark-{mark.kind}{' on-front' if mark.front else ''}"
    group = element("g", element("title", mark.words), shape, class_=classes)
    return element("a", group, href=mark.link) if mark.link else group


def _shape(kind: Kind, x: float, y: float, radius: float) -> Markup:
    if kind in ("certified", "original"):
        return element("circle", cx=x, cy=y, r=radius)
    side = radius * 0.9
    if kind == "made":
        return element("rect", x=x - side, y=y - side, width=2 * side, height=2 * side, rx=2)
    if kind == "refused":
        corners = ((x, y - 1.2 * radius), (x + 1.2 * radius, y), (x, y + 1.2 * radius), (x - 1.2 * radius, y))
        return element("polygon", points=" ".join(f"{number(a)},{number(b)}" for a, b in corners))
    arms = ((x - side, y - side, x + side, y + side), (x - side, y + side, x + side, y - side))
    return element("path", d=" ".join(f"M{number(a)},{number(b)} L{number(c)},{number(d)}" for a, b, c, d in arms))


def _names(places: Sequence[tuple[Mark, float, float, float]]) -> list[Markup]:
    """Beside their marks, the more important first; one that would lie over another, or over a mark, is left out."""
    taken: list[Box] = [(x - radius, y - radius, x + radius, y + radius) for _, x, y, radius in places]
    drawn = []
    for mark, x, y, radius in sorted(places, key=lambda place: (not place[0].front, place[0].kind != "certified", place[1])):
        text = shortened(mark.name, LABEL)
        long = len(text) * _CHARACTER
        for anchor, start in (("start", x + radius + 4), ("end", x - radius - 4 - long)):
            box = (start, y - 8, start + long, y + 6)
            if not text or start < LEFT or start + long > WIDE or any(_over(box, other) for other in taken):
                continue
            taken.append(box)
            place: dict[str, Any] = {"x": start if anchor == "start" else x - radius - 4, "y": y + 4, "text_anchor": anchor}
            drawn.append(element("text", text, **place, class_="pareto-name"))
            break
    return drawn


def _over(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _stairs(points: Sequence[Place]) -> str:
    """Whoever wants more speed than a point has, has the next one's loss."""
    steps = list(points[:1])
    for (before, _), (x, y) in pairwise(points):
        steps += [(before, y), (x, y)]
    return " ".join(f"{number(x)},{number(y)}" for x, y in steps)
