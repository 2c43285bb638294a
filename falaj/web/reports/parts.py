"""The pieces that reports are made of: sections, tables, plots with what they show in words. Everything is escaped."""

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup, escape

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.web.drawing.svg import element, picture, shortened

_LEFT: Final = 190.0
_WIDE: Final = 900.0
_ROW: Final = 20.0
_WIDEST: Final = 26.0
_BELOW: Final = 22.0
# Nothing in it runs, and nothing is fetched, even if something that was written into it got past the escaping.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LEVELS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the distance that matters: from one to the next it is drawn darker


@value
class Cell:
    """`far` is in units of the distance that matters."""

    far: float
    drifts: bool


def document(title: str, style: str, *content: Markup) -> str:
    """One file that needs nothing else. `style` is ours, and of no one's making."""
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(_POLICY),
        element("title", title),
        element("style", Markup(style)),  # nosec B704
    )
    return f"<!doctype html>\n{element('html', head, element('body', *content), lang='en')}\n"


def section(title: str, *content: Markup | str, id: str) -> Markup:
    return element("section", element("h2", title), *content, id=id)


def paragraph(text: str | Markup, class_: str | None = None) -> Markup:
    return element("p", text, class_=class_)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "") -> Markup:
    """The first column names the row."""
    said = [element("caption", caption)] if caption else []
    head = element("thead", element("tr", *(element("th", one, scope="col") for one in heads)))
    body = [
        element(
            "tr",
            *(element("td" if place else "th", _cell(one), scope=None if place else "row") for place, one in enumerate(row)),
        )
        for row in rows
    ]
    return element("div", element("table", *said, head, element("tbody", *body)), class_="wide")


def plot(drawn: Markup, caption: str, *, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A drawing, and the same as a table for who cannot see it."""
    numbers = element("details", element("summary", "The same as a table"), table(heads, rows))
    return element("figure", element("div", drawn, class_="wide"), element("figcaption", caption), numbers)


def moment(at: Moment | None) -> str:
    return "-" if at is None else f"{str(at)[:10]} {str(at)[11:16]} UTC"


def heat_map(rows: Sequence[tuple[str, Sequence[Cell | None]]], times: Sequence[Moment], *, label: str) -> Markup:
    """A row for each column, from left to right in time; what drifts has a dot, for those to whom colours are alike."""
    if not rows or not times:
        return Markup("")
    wide = min(_WIDEST, (_WIDE - _LEFT) / len(times))
    drawn: list[Markup] = []
    for place, (name, cells) in enumerate(rows):
        y = place * _ROW
        drawn.append(
            element("text", element("title", name), shortened(name, _LEFT - 16), x=_LEFT - 8, y=y + 14, text_anchor="end")
        )
        drawn += [
            _square(cell, name, at, _LEFT + wide * column, y, wide)
            for column, (cell, at) in enumerate(zip(cells, times, strict=True))
            if cell
        ]
    bottom, right = len(rows) * _ROW + 15, _LEFT + wide * len(times)
    drawn.append(element("text", moment(times[0]), x=_LEFT, y=bottom, text_anchor="start"))
    if right - _LEFT > 260:
        drawn.append(element("text", moment(times[-1]), x=right, y=bottom, text_anchor="end"))
    return picture(*drawn, width=max(right, _LEFT + 130), height=len(rows) * _ROW + _BELOW, label=label, class_="heat")


def _square(cell: Cell, name: str, at: Moment, x: float, y: float, wide: float) -> Markup:
    level = sum(cell.far >= one for one in _LEVELS)
    words = f"{name}, {moment(at)}: {cell.far:.2f} of the distance that matters{', drifts' if cell.drifts else ''}"
    shape = {"x": x, "y": y + 1, "width": max(1.0, wide - 1), "height": _ROW - 2}
    drawn = [element("title", words), element("rect", **shape, class_=f"heat-{level}")]
    if cell.drifts:
        drawn.append(element("circle", cx=x + (wide - 1) / 2, cy=y + _ROW / 2, r=2.6, class_="heat-dot"))
    return element("g", *drawn)


def _cell(one: object) -> Markup:
    if isinstance(one, Moment):
        return escape(moment(one))
    return escape("-" if one is None or one == "" else one)
