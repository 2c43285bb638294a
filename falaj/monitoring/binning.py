"""Columns of tables with their bins, and what was counted by them; whoever counted. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.monitoring.operations.monitors import MOST_COLUMNS
from falaj.monitoring.references import Column, edges_of
from falaj.tables import types
from falaj.tables.orders import Bins, Surveyed
from falaj.tables.schemas import Schema

NUMBER: Final = "number"
TEXT: Final = "text"
_NUMBERS: Final = (*types.INTEGERS, *types.FLOATS, "decimal", "bool")


def kind_of(word: str) -> str | None:
    """What a column of this type is counted as; None where nobody counts such."""
    found = types.parse(word).word
    return TEXT if found == "text" else NUMBER if found in _NUMBERS else None


def countable(schema: Schema, names: Sequence[str]) -> list[str]:
    """Those of these columns that are numbers or texts."""
    kinds = {one.name: kind_of(one.type) for one in schema.columns}
    return [name for name in names if kinds.get(name) is not None][:MOST_COLUMNS]


def with_bins(schema: Schema, found: Mapping[str, Surveyed]) -> list[Column]:
    return [
        Column(name=name, kinds=one.kinds or ("",))
        if kind_of(schema.column(name).type) == TEXT
        else Column(name=name, edges=edges_of(one.quantiles))
        for name, one in found.items()
    ]


def bins_of(columns: Sequence[Column]) -> list[Bins]:
    return [Bins(name=one.name, edges=one.edges, kinds=one.kinds) for one in columns]


def settled(columns: Sequence[Column], counts: Mapping[str, Mapping[str, Sequence[int]]]) -> tuple[Column, ...]:
    """With what was counted, by slot; a column without rows is none."""
    found = []
    for column in columns:
        filled = column
        for slot, some in counts[column.name].items():
            filled = filled.with_counts(slot, some)
        found.append(replace(filled, settled=True))
    return tuple(one for one in found if one.rows)
