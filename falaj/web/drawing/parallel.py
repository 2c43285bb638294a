"""Parallel coordinates: one upright axis for each thing that differed, one line for each run."""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from markupsafe import Markup

from falaj.base.values import value
from falaj.web.drawing.svg import element, number, picture, shortened

APART: Final = 130.0
HIGH: Final = 230.0
ABOVE: Final = 34.0
BELOW: Final = 14.0
SIDE: Final = 76.0
MOST_TICKS: Final = 8
Cell: TypeAlias = float | str | None


@value
class Axis:
    """`cells` has one entry for each line, None where that run has nothing to say."""

    name: str
    cells: tuple[Cell, ...]


@value
class _Scale:
    """Where values stand on an axis, from 0 at its foot to 1 at its head, and what is written beside it."""

    places: tuple[float | None, ...]
    ticks: tuple[tuple[float, str], ...]


def drawing(names: Sequence[str], axes: Sequence[Axis], label: str) -> Markup:
    """`names` are the runs, in the order of the colours `series-0`, `series-1` and so on."""
    if not axes or not names:
        return Markup("")
    scales = [_scale(axis.cells) for axis in axes]
    columns = [SIDE + index * APART for index in range(len(axes))]
    drawn = [_line(line, name, scales, columns) for line, name in enumerate(names)]
    drawn += [_axis(axis.name, scale, x) for axis, scale, x in zip(axes, scales, columns, strict=True)]
    width = 2 * SIDE + (len(axes) - 1) * APART
    return picture(*drawn, width=width, height=ABOVE + HIGH + BELOW, label=label, class_="parallel")


def _scale(cells: Sequence[Cell]) -> _Scale:
    numbers = [_finite(cell) for cell in cells]
    if all(number is not None for number, cell in zip(numbers, cells, strict=True) if cell is not None):
        return _of_numbers(numbers)
    words = sorted({str(cell) for cell in cells if cell is not None})
    place = {word: (index + 0.5) / len(words) for index, word in enumerate(words)}
    every = max(1, math.ceil(len(words) / MOST_TICKS))
    ticks = tuple((place[word], word) for word in words[::every])
    return _Scale(places=tuple(None if cell is None else place[str(cell)] for cell in cells), ticks=ticks)


def _of_numbers(numbers: Sequence[float | None]) -> _Scale:
    known = [number for number in numbers if number is not None]
    if not known:
        return _Scale(places=tuple(None for _ in numbers), ticks=())
    low, high = min(known), max(known)
    logarithmic = low > 0 and high / low >= 100  # rates of learning lie decades apart
    project = math.log if logarithmic else (lambda number: number / 2)
    span = project(high) - project(low)
    if not span:  # the same, or as good as that
        return _Scale(places=tuple(None if number is None else 0.5 for number in numbers), ticks=((0.5, f"{low:.4g}"),))
    places = tuple(None if number is None else (project(number) - project(low)) / span for number in numbers)
    return _Scale(places=places, ticks=((0.0, f"{low:.4g}"), (1.0, f"{high:.4g}")))


def _finite(cell: Cell) -> float | None:
    """Parameters are texts, and mostly numbers."""
    try:
        number = float(cell) if cell is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _axis(name: str, scale: _Scale, x: float) -> Markup:
    marks = [element("line", x1=x, y1=ABOVE, x2=x, y2=ABOVE + HIGH)]
    marks.append(
        element(
            "text", element("title", name), shortened(name, APART - 12), x=x, y=ABOVE - 16, text_anchor="middle", class_="axis"
        )
    )
    for place, words in scale.ticks:
        shown = shortened(words, APART / 2 - 10)
        marks.append(element("text", element("title", words), shown, x=x - 7, y=_height(place) + 4, text_anchor="end"))
    return element("g", *marks, class_="parallel-axis")


def _line(line: int, name: str, scales: Sequence[_Scale], columns: Sequence[float]) -> Markup:
    """Where a run has nothing to say on an axis, its line is broken."""
    pieces: list[list[str]] = [[]]
    for scale, x in zip(scales, columns, strict=True):
        place = scale.places[line]
        if place is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{number(x)},{number(_height(place))}")
    drawn = [element("polyline", points=" ".join(piece)) for piece in pieces if len(piece) > 1]
    dots = [piece[0].split(",") for piece in pieces if len(piece) == 1]
    drawn += [element("circle", cx=x, cy=y, r=3) for x, y in dots]
    return element("g", element("title", name), *drawn, class_=f"parallel-line series-{line % 20}")


def _height(place: float) -> float:
    return ABOVE + (1 - place) * HIGH
