"""One GPU as a square: filled as far as jobs hold it, and darker as far as it computes."""

from typing import Final

from markupsafe import Markup

from falaj.web.drawing.svg import element, picture

SIDE: Final = 22.0
_EDGE: Final = 1.0


def card(*, held: float, busy: float) -> Markup:
    """Both are parts of the card, 0 to 1. The words stand beside it."""
    room = SIDE - 2 * _EDGE
    drawn = [element("rect", x=_EDGE, y=_EDGE, width=room, height=room, rx=3, class_="card-frame")]
    for part, inset, kind in ((held, 0.0, "card-held"), (busy, 5.0, "card-busy")):
        high = min(1.0, max(0.0, part)) * room
        if high:
            place = {"x": _EDGE + inset, "y": _EDGE + room - high, "width": room - 2 * inset, "height": high, "rx": 2}
            drawn.append(element("rect", **place, class_=kind))
    return picture(*drawn, width=SIDE, height=SIDE, class_="card-square")
