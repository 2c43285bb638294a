"""Whether the rows of one table are still what those of another were: the rule that traffic is judged by, asked once; pure.

How many rows each bin holds is counted by a data worker (`checks`), or here and now (`files`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.monitoring.binning import kind_of
from falaj.monitoring.deciding import Outcome, Rule, Standing, decided
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.references import ALWAYS, Column, Reference
from falaj.statistics import distances
from falaj.statistics.two_samples import told_apart
from falaj.tables.orders import Surveyed
from falaj.tables.schemas import Schema

_MOST_KINDS: Final = 10  # of a text that rows are told apart by
_MOST_NAMED: Final = 5


@value
class Checked:
    outcome: Outcome
    distances: dict[str, float]


@value
class Apart:
    """How well rows are told apart by all columns together: `area` 0.5 is not at all. `named` are the columns that it takes
    most, by how much."""

    rows: int
    area: float
    chance: float
    named: tuple[tuple[str, float], ...]
    drifting: bool


def checked(reference: Reference, counts: Mapping[str, Sequence[int]], rule: Rule) -> list[Checked]:
    """The furthest first. All rows are one window: chance brings about a verdict less often than once in so many checks."""
    columns = {one.label: one for one in reference.columns}
    outcomes = decided(reference, Standing(detectors={}), ALWAYS, counts, rule, lambda label, _: counts[label])[1]
    found = [
        Checked(
            outcome=one, distances=distances_of(columns[one.column], columns[one.column].counts[ALWAYS], counts[one.column])
        )
        for one in outcomes
    ]
    return sorted(found, key=lambda one: (not one.outcome.drifting, -one.outcome.effect))


def distances_of(column: Column, usual: Sequence[int], seen: Sequence[int]) -> dict[str, float]:
    """By name. None of them grows with the rows. Those that need an order leave out what is missing; `wasserstein` is in the
    column's own unit, and `cramers-v` is what chi-square comes to however many rows there are."""
    found = {
        "psi": distances.population_stability(usual, seen),
        "jensen-shannon": distances.jensen_shannon(usual, seen),
        "cramers-v": distances.cramer(usual, seen),
    }
    if not column.ordered:
        return found
    first, second, ends = usual[: column.ordered], seen[: column.ordered], (column.edges[0], column.edges[-1])
    return {
        "ks": distances.kolmogorov_smirnov_of_counts(first, second),
        "wasserstein": distances.wasserstein_of_counts(first, second, column.edges, *ends),
        **found,
    }


def schema_changes(before: Schema, after: Schema, ignore: Sequence[str] = ()) -> tuple[ChangedColumn, ...]:
    """Columns that are gone, new, or of another type."""
    first, second = ({one.name: one.type for one in schema.columns if one.name not in ignore} for schema in (before, after))
    names = [*first, *(name for name in second if name not in first)]
    return tuple(
        ChangedColumn(column=name, before=first.get(name, ""), after=second.get(name, ""))
        for name in names
        if first.get(name) != second.get(name)
    )


def comparable(columns: Sequence[Column], before: Schema, after: Schema) -> list[Column]:
    """Those that the other table has, too, as numbers or as texts again."""
    kinds = {one.name: kind_of(one.type) for one in after.columns}
    return [one for one in columns if kinds.get(one.name) == kind_of(before.column(one.name).type)]


def rows_apart(columns: Sequence[Column], before: Mapping[str, Surveyed], after: Mapping[str, Surveyed], rule: Rule) -> Apart:
    """By rows that were sampled on both sides."""
    first, names = _matrix(columns, before)
    second, _ = _matrix(columns, after)
    told = told_apart(first, second)
    weights: dict[str, float] = {}
    for name, weight in zip(names, told.importance, strict=True):
        weights[name] = weights.get(name, 0.0) + weight
    named = sorted(((name, weight) for name, weight in weights.items() if weight > 0), key=lambda one: -one[1])
    return Apart(
        rows=min(len(first), len(second)),
        area=told.area,
        chance=told.chance,
        named=tuple(named[:_MOST_NAMED]),
        drifting=told.chance * rule.one_in <= 1 and 2 * told.area - 1 >= rule.floor,
    )


def _matrix(columns: Sequence[Column], found: Mapping[str, Surveyed]) -> tuple[NDArray[np.float64], list[str]]:
    """A number is a column, and so is each of a text's commonest kinds; and the name that each was made of."""
    made: list[list[float]] = []
    names: list[str] = []
    for column in columns:
        rows = found[column.name].sampled
        if column.ordered:
            made.append([float(one) if isinstance(one, float | int) else math.nan for one in rows])
        made += [[float(one == kind) for one in rows] for kind in column.kinds[:_MOST_KINDS]]
        names += [column.name] * (len(made) - len(names))
    return np.array(made, dtype=np.float64).T.reshape(-1, len(made)), names
