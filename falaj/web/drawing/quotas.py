"""A queue's share of one resource as a bar: what it uses of its own, has lent, could still use, and has borrowed beyond."""

from typing import Final

from markupsafe import Markup

from falaj.web.drawing.svg import element, number

WIDE: Final = 200.0
HIGH: Final = 12.0
MARK: Final = 2.0


def share_bar(*, owed: float, used: float, borrowed: float, lent: float, whole: float) -> Markup:
    """`whole` is what the bar's full width stands for, so that bars of one resource can be compared."""
    whole = max(whole, owed + borrowed)
    if whole <= 0:
        return Markup("")
    own = max(0.0, used - borrowed)
    idle = max(0.0, owed - own - lent)
    drawn, x = [], 0.0
    for size, kind in ((own, "own"), (lent, "lent"), (idle, "idle"), (borrowed, "borrowed")):
        wide = size / whole * WIDE
        if wide > 0:
            drawn.append(element("rect", x=x, y=1.0, width=wide, height=HIGH - 2, class_=f"part-{kind}"))
        x += wide
    if owed:
        place = min(owed / whole * WIDE, WIDE - MARK)
        drawn.append(element("rect", x=place, y=0.0, width=MARK, height=HIGH, class_="part-mark"))
    return _stretched(drawn, "quota-bar")


def meter(part: float, *, beneath: float = 0.0) -> Markup:
    """One part of a whole, 0 to 1; `beneath` is a part of that part, such as what computes of what is held."""
    drawn = [element("rect", x=0.0, y=1.0, width=WIDE, height=HIGH - 2, class_="part-idle")]
    for size, kind in ((part, "held"), (beneath, "own")):
        wide = min(1.0, max(0.0, size)) * WIDE
        if wide:
            drawn.append(element("rect", x=0.0, y=1.0, width=wide, height=HIGH - 2, class_=f"part-{kind}"))
    return _stretched(drawn, "quota-bar")


def _stretched(drawn: list[Markup], class_: str) -> Markup:
    """As wide as its place, whatever that is. The words stand beside it."""
    box = f"0 0 {number(WIDE)} {number(HIGH)}"
    shape = {"viewBox": box, "preserveAspectRatio": "none", "focusable": "false", "aria_hidden": "true"}
    return element("svg", *drawn, class_=class_, **shape)
