"""A metric's course in the space of a word."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from falaj.web.drawing.svg import element, number, picture

MARGIN: Final = 2.0


def sparkline(values: Sequence[float], *, width: float = 88, height: float = 22, class_: str = "spark") -> Markup:
    """Values stand at equal distances. What is not a finite number is a gap; nothing finite draws nothing."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Markup("")
    low, high = min(finite), max(finite)
    across, down = (width - 2 * MARGIN) / max(1, len(values) - 1), height - 2 * MARGIN
    # Halved before they are subtracted: the distance between two finite numbers need not be finite.
    span = high / 2 - low / 2

    def place(index: int, value: float) -> tuple[float, float]:
        part = (value / 2 - low / 2) / span if span else 0.5
        return MARGIN + index * across, MARGIN + (1 - part) * down

    lines = [[place(index, values[index]) for index in stretch] for stretch in _stretches(values)]
    drawn = [element("polyline", points=_points(line)) for line in lines if len(line) > 1]
    drawn += [element("circle", cx=x, cy=y, r=1.5) for line in lines if len(line) == 1 for x, y in line]
    end = lines[-1][-1]
    drawn.append(element("circle", class_="spark-end", cx=end[0], cy=end[1], r=1.8))
    return picture(*drawn, width=width, height=height, class_=class_)


def _stretches(values: Sequence[float]) -> Iterator[list[int]]:
    """The indices of finite values, cut where there is a gap."""
    stretch: list[int] = []
    for index, value in enumerate(values):
        if math.isfinite(value):
            stretch.append(index)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _points(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in line)
