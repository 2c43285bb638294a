"""Entities and feature values between Python and JSON: what a notebook has, and what it gets."""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, Misconfigured
from falaj.base.values import value
from falaj.datasets.operations.features import ServedView
from falaj.tables.types import parse

_HEARD: Final[Mapping[str, Callable[[Any], Any]]] = {
    "float64": float,
    "float32": float,
    "decimal": Decimal,
    "moment": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bytes": base64.b64decode,
}


@value
class Values:
    """What is served of entities, in their order. `views` say of which moment; `events` has for each entity and view when the
    newest happened that is known of it."""

    views: tuple[ServedView, ...]
    entities: tuple[Mapping[str, Any], ...]
    rows: tuple[tuple[Any, ...], ...]
    events: tuple[tuple[Moment | None, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        """Keys and features of each."""
        names = [column.name for view in self.views for column in view.columns]
        return [{**entity, **dict(zip(names, row, strict=True))} for entity, row in zip(self.entities, self.rows, strict=True)]

    def pandas(self) -> Any:
        try:
            frame = import_module("pandas").DataFrame
        except ModuleNotFoundError:
            raise Misconfigured("There is no pandas here: pip install pandas.") from None
        return frame(self.dicts())


def told_entities(entities: Any) -> list[dict[str, Any]]:
    """Of a frame or an Arrow table its rows; otherwise dictionaries, as they are."""
    rows = entities
    if hasattr(entities, "to_pylist"):
        rows = entities.to_pylist()
    elif hasattr(entities, "to_dicts"):
        rows = entities.to_dicts()
    elif hasattr(entities, "to_dict"):
        rows = entities.to_dict("records")
    elif isinstance(entities, Mapping):
        rows = [entities]
    if not isinstance(rows, Sequence) or not all(isinstance(one, Mapping) for one in rows):
        raise Invalid("Entities are dictionaries such as {'user': 7}, or a frame whose columns tell them apart.")
    return [{str(name): _told(one) for name, one in row.items()} for row in rows]


def heard(one: Any, kind: str) -> Any:
    """A value as Python has it; what JSON says of it in text is read again."""
    change = _HEARD.get(parse(kind).word)
    return one if one is None or change is None else change(one)


def _told(one: Any) -> Any:
    one = one.item() if hasattr(one, "item") and not isinstance(one, datetime) else one  # a scalar of numpy
    if isinstance(one, datetime):
        if one.tzinfo is None:
            raise Invalid(f"{one} has no time zone: write datetime(..., tzinfo=UTC).")
        return one.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(one, date):
        return one.isoformat()
    return base64.b64encode(one).decode() if isinstance(one, bytes) else one
