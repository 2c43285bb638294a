"""What is kept of a table to compare others with it: a few hundred numbers a column, and no row."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.checks.columns import Column, Kind, Table, table

POINTS: Final = 1000  # of a distribution of numbers: it is known within a thousandth
KINDS: Final = 1000  # categories that are counted by name
VERSION: Final = 1


@value
class Shape:
    """Of one column. Numbers and moments have `points`, each standing for an equal share; categories have `counts`."""

    name: str
    kind: Kind
    rows: int
    missing: int
    points: Sequence[float]
    counts: Mapping[str, int]
    others: int  # rows of categories that are not counted by name

    @property
    def known(self) -> int:
        return self.rows - self.missing


@value
class Profile:
    """Of a table. `as_document` and `profile_from` keep it as JSON beside a version of data or a model."""

    columns: Mapping[str, Shape]

    def as_document(self) -> dict[str, Any]:
        fields = ("name", "kind", "rows", "missing", "others")
        return {
            "version": VERSION,
            "columns": [
                {field: getattr(one, field) for field in fields} | {"points": list(one.points), "counts": dict(one.counts)}
                for one in self.columns.values()
            ],
        }


def profile(given: Any) -> Profile:
    """Of a table of any make; a profile, or its document, stays what it is."""
    if isinstance(given, Profile):
        return given
    if isinstance(given, Mapping) and {"version", "columns"} == set(given):
        return profile_from(given)
    return profile_of(table(given))


def profile_of(columns: Table) -> Profile:
    return Profile(columns={name: _shape(column) for name, column in columns.items()})


def profile_from(document: Mapping[str, Any]) -> Profile:
    if document.get("version") != VERSION:
        raise Invalid(f"this profile is of version {document.get('version')!r}, and {VERSION} can be read")
    return Profile(columns={one["name"]: Shape(**one) for one in document["columns"]})


def _shape(column: Column) -> Shape:
    missing = int(column.missing.sum())
    points: Sequence[float] = ()
    counts: dict[str, int] = {}
    if column.kind == "category":
        names, often = np.unique(column.known.astype(str), return_counts=True)
        kept = np.lexsort((names, -often))[:KINDS]
        counts = {str(names[place]): int(often[place]) for place in kept}
    else:
        points = [float(point) for point in _points(column.known)]
    others = len(column) - missing - sum(counts.values()) if column.kind == "category" else 0
    return Shape(
        name=column.name, kind=column.kind, rows=len(column), missing=missing, points=points, counts=counts, others=others
    )


def _points(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """All of them in order, or the middles of a thousand equal parts."""
    ordered = np.sort(numbers)
    if len(ordered) <= POINTS:
        return ordered
    return ordered[((np.arange(POINTS) + 0.5) * len(ordered) / POINTS).astype(np.int64)]
