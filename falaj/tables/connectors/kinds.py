"""What a column of Python values becomes, where somebody said its type in our words."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables import types
from falaj.tables.arrow_schemas import arrow_type
from falaj.tables.connectors import rows
from falaj.tables.connectors.rows import RowColumn
from falaj.tables.schemas import listed

ZONED: Final = pa.timestamp("us", "UTC")
UNZONED: Final = pa.timestamp("us")
_CONVERSIONS: Final = {"text": rows.to_text, "decimal": rows.to_decimal, "bool": rows.to_bool, "date": rows.to_date}


def column(name: str, word: str, seen: Iterable[Any] = ()) -> RowColumn:
    """A column of the type `word`. Whether times have an offset is decided by the first that was `seen`."""
    kind = types.parse(word, of=name)
    if kind.word == "moment":
        return _moments(name, seen)
    return RowColumn(name=name, type=arrow_type(kind), convert=_CONVERSIONS.get(kind.word))


def refuse_unknown(said: Mapping[str, str], names: Iterable[str]) -> None:
    there = tuple(names)
    if wrong := [name for name in said if name not in there]:
        raise Invalid(f"There is no column {wrong[0]!r} to have a type. There are {listed(there)}.")


def _moments(name: str, seen: Iterable[Any]) -> RowColumn:
    first = next((value for value in seen if value is not None), None)
    try:
        rows.to_unzoned(first)
    except ValueError:
        return RowColumn(name=name, type=ZONED, convert=rows.to_zoned)
    return RowColumn(name=name, type=UNZONED, convert=rows.to_unzoned)
