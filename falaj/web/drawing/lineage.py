"""What came from what, as a drawing: layers from left to right, each node a link to its page."""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.layers import layered
from falaj.web.drawing.svg import element, number, picture, shortened

WIDE: Final = 190.0
HIGH: Final = 46.0
GAP_ACROSS: Final = 62.0
GAP_DOWN: Final = 16.0
MARGIN: Final = 8.0


@value
class Box:
    """A node as it is drawn. `kind` stands above the label, with `note`, and names its colour; no `link`: it leads nowhere."""

    id: str
    kind: str
    label: str
    note: str = ""
    link: str = ""
    here: bool = False


@value
class Arrow:
    source: str
    target: str
    words: str = ""


def drawing(boxes: Sequence[Box], arrows: Sequence[Arrow], label: str) -> Markup:
    layers = layered([box.id for box in boxes], [(arrow.source, arrow.target) for arrow in arrows])
    if not layers:
        return Markup("")
    tallest = max(map(len, layers))
    height = 2 * MARGIN + tallest * HIGH + (tallest - 1) * GAP_DOWN
    width = 2 * MARGIN + len(layers) * WIDE + (len(layers) - 1) * GAP_ACROSS
    places = _places(layers, height)
    lines = [_line(arrow, places) for arrow in arrows if arrow.source in places and arrow.target in places]
    return picture(
        *lines, *(_node(box, places[box.id]) for box in boxes), width=width, height=height, label=label, class_="lineage"
    )


def _places(layers: Sequence[Sequence[str]], height: float) -> dict[str, tuple[float, float]]:
    places = {}
    for column, layer in enumerate(layers):
        tall = len(layer) * HIGH + (len(layer) - 1) * GAP_DOWN
        for row, name in enumerate(layer):
            places[name] = (MARGIN + column * (WIDE + GAP_ACROSS), (height - tall) / 2 + row * (HIGH + GAP_DOWN))
    return places


def _node(box: Box, place: tuple[float, float]) -> Markup:
    x, y = place
    above = f"{box.kind} · {box.note}" if box.note else box.kind
    shape = Markup("").join(
        (
            element("rect", x=x, y=y, width=WIDE, height=HIGH, rx=8),
            element("rect", x=x, y=y, width=4, height=HIGH, rx=2, class_="lineage-edge"),
            element("text", shortened(above, WIDE - 26), x=x + 14, y=y + 18, class_="lineage-kind"),
            element("text", shortened(box.label, WIDE - 26), x=x + 14, y=y + 35),
            element("title", f"{above}: {box.label}"),
        )
    )
    kind = "here" if box.here else box.kind.partition(" ")[0]
    group = element("g", shape, class_=f"lineage-node lineage-{kind}")
    return element("a", group, href=box.link) if box.link and not box.here else group


def _line(arrow: Arrow, places: Mapping[str, tuple[float, float]]) -> Markup:
    (left, above), (right, below) = places[arrow.source], places[arrow.target]
    start, end = (left + WIDE, above + HIGH / 2), (right, below + HIGH / 2)
    bend = max(GAP_ACROSS / 2, abs(end[0] - start[0]) / 2)
    curve = (start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end)
    first, *others = (f"{number(x)},{number(y)}" for x, y in curve)
    tip = " ".join(f"{number(x)},{number(y)}" for x, y in ((end[0] - 6, end[1] - 4), end, (end[0] - 6, end[1] + 4)))
    name = element("title", arrow.words) if arrow.words else ""
    return element(
        "g", name, element("path", d=f"M{first} C{' '.join(others)}"), element("polyline", points=tip), class_="lineage-line"
    )
