"""What the columns of a part look like: types, nulls, different values, quantiles, histogram, frequent values. Made while the
part is written, and merged to the profile of a version from those of its parts, without reading them again.

A profile is a value for JSON: `rows`, and `columns` in their order, each with what is shown of it and with its `state`, from
which profiles are merged. `masking` takes out what somebody may not see.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.column_profiles import ColumnProfile
from falaj.tables.schemas import Schema

_ALL_UP_TO: Final = 32_768
_FORMAT: Final = 1


class Profiling:
    """Of rows as they come, in batches of the schema."""

    def __init__(self, schema: Schema) -> None:
        self._columns = {column.name: ColumnProfile(column.type) for column in schema.columns}
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ALL_UP_TO):
            piece = batch.slice(start, _ALL_UP_TO)
            every = 1
            while every * _ALL_UP_TO <= self._rows:
                every *= 2
            for name, column in zip(self._columns, piece.columns, strict=True):
                self._columns[name].add(column, every=every)
            self._rows += piece.num_rows

    def profile(self) -> dict[str, Any]:
        return _told(self._rows, self._columns)


def merged(
    profiles: Sequence[Mapping[str, Any]], schema: Schema, renamed: Sequence[Mapping[str, str] | None] = ()
) -> dict[str, Any]:
    """That of a version from those of its parts. `renamed` says for each part what its columns are called now. A column that a
    part does not have is null there; one that the schema does not have any more is left out."""
    columns = {column.name: ColumnProfile(column.type) for column in schema.columns}
    rows = 0
    for place, profile in enumerate(profiles):
        if profile.get("format") != _FORMAT:
            raise Invalid(
                "A profile is of another format than this version of Falaj has: it has to be made again from its part."
            )
        rows += profile["rows"]
        names = (renamed[place] if place < len(renamed) else None) or {}
        there = {names.get(column["name"], column["name"]): column for column in profile["columns"]}
        for name, whole in columns.items():
            part = there.get(name)
            if part is None or not _comparable(part["type"], whole.type):
                whole.add_absent(profile["rows"])
            else:
                whole.merge(ColumnProfile.from_state(part["type"], part["state"]))
    return _told(rows, columns)


def _comparable(narrow: str, wide: str) -> bool:
    return narrow == wide or types.fits(types.parse(narrow), into=types.parse(wide))


def _told(rows: int, columns: Mapping[str, ColumnProfile]) -> dict[str, Any]:
    told = [{"name": name, **column.shown(), "state": column.state()} for name, column in columns.items()]
    return {"format": _FORMAT, "rows": rows, "columns": told}
