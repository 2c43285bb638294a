"""How far two profiles are apart, column by column: what a diff of versions says of distributions, without reading a row."""

from collections.abc import Mapping
from typing import Any, Final

from falaj.tables import types
from falaj.tables.column_profiles import ColumnProfile

_DIGITS: Final = 6


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the columns that both have, in the order of the later: the change of their share of nulls, of their different values,
    and `distance`, from 0 (alike) to 1 (nothing in common), where there is one.

    Of numbers and times the distance is the largest between their cumulative distributions (Kolmogorov and Smirnov's), of
    other values half the sum of what their shares differ by, over the frequent ones.
    """
    there = {column["name"]: column for column in before["columns"]}
    return [_compared(there[column["name"]], column) for column in after["columns"] if column["name"] in there]


def _compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": after["name"], "type": after["type"]}
    one, other = (ColumnProfile.from_state(column["type"], column["state"]) for column in (before, after))
    told["nulls"] = [_share(one.nulls, one.rows), _share(other.nulls, other.rows)]
    if "distinct" in before and "distinct" in after:
        told["distinct"] = [before["distinct"], after["distinct"]]
    if "mean" in before and "mean" in after:
        told["mean"] = [before["mean"], after["mean"]]
    if types.fits(types.parse(before["type"]), into=types.parse(after["type"])):
        distance = one.distance(other)
        if distance is not None:
            told["distance"] = round(distance, _DIGITS)
    return told


def _share(some: int, of: int) -> float:
    return round(some / of, _DIGITS) if of else 0.0
