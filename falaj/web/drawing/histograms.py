"""How the values of a column are spread, as bars over their range. The ends are said in words beneath."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from falaj.web.drawing.svg import element, picture, shortened

WIDE: Final = 320.0
HIGH: Final = 90.0
_WORDS: Final = 16.0
_GAP: Final = 1.0
_LEAST: Final = 1.0  # so that a few rows beside very many are still seen


def histogram(counts: Sequence[int], edges: Sequence[str], *, label: str) -> Markup:
    """`edges` are one more than `counts`. Nothing where there is no row to draw."""
    most = max(counts, default=0)
    if most <= 0 or len(edges) != len(counts) + 1:
        return Markup("")
    wide = WIDE / len(counts)
    bars = []
    for place, count in enumerate(counts):
        high = max(_LEAST, count / most * (HIGH - 2)) if count > 0 else 0.0
        words = element("title", f"{edges[place]} to {edges[place + 1]}: {count:,}")
        bars.append(element("rect", words, x=place * wide, y=HIGH - high, width=wide - _GAP, height=high))
    base = element("line", x1=0.0, y1=HIGH, x2=WIDE, y2=HIGH)
    ends = (
        element("text", shortened(edges[0], WIDE / 2), x=0.0, y=HIGH + _WORDS - 3),
        element("text", shortened(edges[-1], WIDE / 2), x=WIDE, y=HIGH + _WORDS - 3, text_anchor="end"),
    )
    return picture(*bars, base, *ends, width=WIDE, height=HIGH + _WORDS, label=label, class_="histogram")
