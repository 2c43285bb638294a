"""What of logged calls is kept from a reader: columns that the model was made from, where whoever keeps these says so."""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from falaj.database.work import Context

_VEILED: Final = "masked"  # as planes write down what the endpoint masks


class Veil(Protocol):
    """Says what is kept from whom. Thread-safe."""

    def hidden(self, context: Context, versions: Collection[str]) -> Mapping[str, Collection[str]]:
        """By the id of a model's version: the columns it was made from that the caller may not see, their names case-folded."""
        ...


class NoVeil:
    """Where no room above keeps anything."""

    def hidden(self, context: Context, versions: Collection[str]) -> Mapping[str, Collection[str]]:
        return {}


def veiled(inputs: str, hidden: Collection[str]) -> str:
    """Without the columns. A tensor of several is left out as a whole: a log does not say which of them is which."""
    if not hidden:
        return inputs
    try:
        document = json.loads(inputs)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    return json.dumps({name: _veiled(name, values, hidden) for name, values in document.items()})


def _veiled(name: str, values: Any, hidden: Collection[str]) -> Any:
    if name.casefold() in hidden or _has_columns(values):
        return _VEILED
    if isinstance(values, dict):  # keys that features were looked up by
        return {key: _veiled(key, some, hidden) for key, some in values.items()}
    return values


def _has_columns(values: Any) -> bool:
    rows = values if isinstance(values, list) else []
    return any(isinstance(row, list) and (len(row) > 1 or _has_columns(row)) for row in rows)
