"""A split as a bar: who gets how much, at a glance. The words stand beside it."""

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.svg import element, number

HIGH: Final = 10.0
_GAP: Final = 2.0


@value
class Part:
    """`size` is in any unit; `series` chooses the colour."""

    size: float
    series: int
    words: str = ""


def bar(parts: Sequence[Part], *, width: float = 160) -> Markup:
    """Nothing where nobody gets anything."""
    sized = [part for part in parts if part.size > 0]
    whole = sum(part.size for part in sized)
    drawn, x = [], 0.0
    for part in sized:
        wide = part.size / whole * (width - _GAP * (len(sized) - 1))
        place: dict[str, Any] = {"x": x, "y": 0.0, "width": wide, "height": HIGH}
        drawn.append(element("rect", element("title", part.words), **place, class_=f"series-{part.series}"))
        x += wide + _GAP
    if not drawn:
        return Markup("")
    box = f"0 0 {number(width)} {number(HIGH)}"
    # As wide as its place, whatever that is.
    shape = {"viewBox": box, "preserveAspectRatio": "none", "focusable": "false", "aria_hidden": "true"}
    return element("svg", *drawn, class_="shares", **shape)
