"""What units brought: rows of labelled predictions become one outcome for each unit that was served. Pure."""

import math
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Final, TypeAlias

from falaj.base.values import value
from falaj.monitoring.joined import Joined, as_kind
from falaj.monitoring.operations.abtests import Metric

_LARGEST: Final = 1e100
_Row: TypeAlias = tuple[Joined, float, float]  # what came of it, and of what that is `per`


@value
class Seen:
    """One unit: the revision that served it first, what came of its rows on average, and of what that is `per`; `known` is what
    was known of it before, where that was told."""

    revision: int
    came: float
    per: float = 1.0
    known: float | None = None


@value
class Gathered:
    """`crossed` units were served by several arms; the first of them counts. `outside` rows lay outside the metric's bounds and
    count as the nearest of them."""

    units: dict[str, Seen]
    crossed: int = 0
    outside: int = 0


def gathered(metric: Metric, rows: Sequence[Joined], revisions: Collection[int], since: int) -> Gathered:
    """Of rows that are about the metric, of predictions made by these revisions since then; whose caller did not choose the
    revision, or callers would choose who wins."""
    by_unit: dict[str, list[_Row]] = {}
    outside = 0
    for row in rows:
        if row.revision not in revisions or row.at < since or not row.drawn:
            continue
        came, per = _measured(metric, row), _number(row.values.get(metric.per)) if metric.per else 1.0
        if came is None or per is None:
            continue
        within = _within(metric, came)
        outside += within != came
        by_unit.setdefault(row.unit, []).append((row, within, per))
    units, crossed = {}, 0
    for unit, several in by_unit.items():
        first = min(several, key=lambda one: one[0].at)[0].revision
        mine = [one for one in several if one[0].revision == first]
        crossed += len(mine) < len(several)
        units[unit] = _unit(metric, first, mine)
    return Gathered(units=units, crossed=crossed, outside=outside)


def _unit(metric: Metric, revision: int, rows: Sequence[_Row]) -> Seen:
    known = [told for row, _, _ in rows if (told := _number(row.values.get(metric.covariate))) is not None]
    return Seen(
        revision=revision,
        came=fmean(came for _, came, _ in rows),
        per=fmean(per for _, _, per in rows),
        known=fmean(known) if metric.covariate and known else None,
    )


def _measured(metric: Metric, row: Joined) -> float | None:
    if metric.of == "value":
        return _number(row.values.get(metric.value))
    if metric.of == "truth":
        return _number(row.truth)
    if row.truth is None or row.said.answer is None:
        return None
    return float(as_kind(row.said.answer) == as_kind(row.truth))


def _within(metric: Metric, came: float) -> float:
    if metric.kind == "mean":
        return came
    low, high = bounds_of(metric)
    return min(max(came, low), high)


def bounds_of(metric: Metric) -> tuple[float, float]:
    """Between which outcomes lie; without end where nobody knows."""
    if metric.kind == "mean":
        return -math.inf, math.inf
    return (0.0, 1.0) if metric.kind == "binary" else (metric.low, metric.high)


def _number(told: object) -> float | None:
    """A truth may have come as a text. What nobody could add up is no number here."""
    try:
        found = float(told) if isinstance(told, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if abs(found) <= _LARGEST else None
