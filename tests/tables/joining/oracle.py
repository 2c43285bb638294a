"""What a training set is, in nested loops over plain Python: slow, and plainly right."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from falaj.tables.joining.views import Feature, View

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expected(labels: Sequence[Row], time: str, views: Iterable[tuple[View, Sequence[Row]]]) -> list[Row]:
    """`rows` are in the order of their positions; each has its event and its knowledge under the view's names or `__known`."""
    views = list(views)
    found = []
    for label in labels:
        row = dict(label)
        for view, rows in views:
            candidates = [one for one in rows if _is_candidate(one, label, label[time], view)]
            for feature in view.features:
                row[feature.name] = _value(feature, candidates, label[time], view)
        found.append(row)
    return found


def _is_candidate(row: Row, label: Row, at: datetime | None, view: View) -> bool:
    for key in view.keys:
        one, other = label[key.label or key.column], row[key.column]
        if one is None or other is None or one != other:
            return False
    event, known = row[view.event], row[view.known or "__known"]
    if at is None or event is None or known is None or event > at or known > at:
        return False
    return view.time_to_live is None or event > at - timedelta(microseconds=view.time_to_live)


def _value(feature: Feature, candidates: Sequence[Row], at: datetime, view: View) -> Any:
    if feature.period is not None:
        candidates = [row for row in candidates if row[view.event] > at - timedelta(microseconds=feature.period)]
    if feature.function == "last":
        order = sorted(enumerate(candidates), key=lambda pair: (pair[1][view.event], pair[1][view.known or "__known"], pair[0]))
        return order[-1][1][feature.column] if order else None
    if feature.function == "count" and not feature.column:
        return len(candidates)
    values = [row[feature.column] for row in candidates if row[feature.column] is not None]
    if feature.function == "count":
        return len(values)
    if feature.function == "distinct":
        return len({"nan" if value != value else value for value in values})
    if not values:
        return None
    if feature.function == "sum":
        return _sum(values)
    if feature.function == "mean":
        return _as_float(_sum(values)) / len(values)
    if any(value != value for value in values):
        return math.nan
    return (min if feature.function == "min" else max)(values, key=_with_zeros_apart)


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], timedelta):
        return sum(values, timedelta())
    if not isinstance(values[0], float):
        return sum(int(value) for value in values)
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for strange in (math.inf, -math.inf):
        if strange in values:
            return strange
    return _as_float(sum(map(Fraction, values), Fraction()))


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _with_zeros_apart(value: Any) -> Any:
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def microseconds(moment: datetime | date) -> int:
    assert isinstance(moment, datetime)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def bits(value: Any) -> Any:
    """Equal only where every bit is, but for the bits of a NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return value
