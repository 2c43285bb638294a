"""Fewer points for a curve that is drawn: the first, the last, and the least and greatest of each stretch between them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

# Whatever a point is, its last two parts are its value and whether that is NaN.
Point: TypeAlias = tuple[Any, ...]


def thinned(points: Iterator[Point], total: int, most: int) -> list[Point]:
    """At most `most` of the `total` points, in their order; all of them where there are no more. Reads exactly `total`."""
    if total <= most:
        return list(islice(points, total))
    kept = list(islice(points, 1))
    between, stretches = total - 2, (most - 2) // 2
    for number in range(stretches):
        kept += _extremes(list(islice(points, (number + 1) * between // stretches - number * between // stretches)))
    rest = list(islice(points, total - 1 if not stretches else 1))
    return [*kept, rest[-1]]


def _extremes(stretch: list[Point]) -> list[Point]:
    """The least and the greatest, in their order; where all are NaN, the first of them."""
    valued = [point for point in stretch if not point[-1]] or stretch[:1]
    values = [point[-2] for point in valued]
    return [valued[place] for place in sorted({values.index(min(values)), values.index(max(values))})]
