"""Which features are how far from what they should be, and since when: a row for each, window by window, alarms marked."""

from collections.abc import Collection, Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.svg import element, number, picture

WIDE: Final = 660.0
ROW: Final = 24.0
WIDEST: Final = 28.0
_GAP: Final = 1.0
_BREAK: Final = 5.0  # where time passed that no window is of
_MARK: Final = 3.6
STEPS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the distance that matters: from one to the next it is drawn darker


@value
class Cell:
    """`far` is in units of the distance that matters, so that 1 is where it begins to."""

    far: float
    alarm: bool
    words: str

    @property
    def level(self) -> int:
        return sum(self.far >= step for step in STEPS)


@value
class Row:
    """`cells` are by window, oldest first; None where nothing is known. `link` leads to more of the feature. Its name and
    `words`, which say what the row shows, stand beside the picture, so that they stay while it is scrolled."""

    name: str
    link: str
    words: str
    cells: tuple[Cell | None, ...]
    chosen: bool = False


def heat_map(rows: Sequence[Row], *, breaks: Collection[int] = ()) -> Markup:
    """A row can be pressed anywhere; a keyboard goes by the names beside it. Before the windows of `breaks` time passed."""
    windows = max((len(row.cells) for row in rows), default=0)
    if not windows:
        return Markup("")
    wide = min(WIDEST, (WIDE - _BREAK * len(breaks)) / windows)
    places = [wide * at + _BREAK * sum(one <= at for one in breaks) for at in range(windows)]
    drawn = [_row(row, ROW * place, places, wide) for place, row in enumerate(rows)]
    return picture(*drawn, width=places[-1] + wide, height=ROW * len(rows), class_="heat")


def swatch(level: int, *, alarm: bool = False) -> Markup:
    """A cell by itself, for a legend."""
    drawn = [element("rect", x=0.0, y=0.0, width=16.0, height=16.0, rx=2, class_=f"heat-{level}")]
    if alarm:
        drawn.append(_alarm(8.0, 8.0))
    return picture(*drawn, width=16.0, height=16.0, class_="heat")


def _row(row: Row, y: float, places: Sequence[float], wide: float) -> Markup:
    ground = element("rect", x=0.0, y=y, width=places[-1] + wide, height=ROW, class_="heat-ground")
    drawn = [element("title", f"{row.name}: {row.words}"), ground]
    for cell, x in zip(row.cells, places, strict=True):
        if cell is None:
            continue
        said = [element("title", cell.words)] if cell.level or cell.alarm else []
        shape = {"x": x, "y": y + _GAP, "width": max(1.0, wide - _GAP), "height": ROW - 2 * _GAP, "rx": 2}
        drawn.append(element("rect", *said, **shape, class_=f"heat-{cell.level}"))
        if cell.alarm:
            drawn.append(_alarm(x + (wide - _GAP) / 2, y + ROW / 2, title=cell.words))
    kind = "heat-row chosen" if row.chosen else "heat-row"
    return element("a", *drawn, href=row.link, class_=kind, tabindex=-1)


def _alarm(x: float, y: float, title: str = "") -> Markup:
    """A lozenge: a shape, for those to whom the colours are alike."""
    corners = ((x, y - _MARK), (x + _MARK, y), (x, y + _MARK), (x - _MARK, y))
    points = " ".join(f"{number(across)},{number(down)}" for across, down in corners)
    return element("polygon", *([element("title", title)] if title else []), points=points, class_="heat-alarm")
