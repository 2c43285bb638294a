"""Requests and results on their way to JSON and back: pydantic's reading of the frozen values that rooms declare."""

from typing import Any

from pydantic import TypeAdapter

_adapters: dict[Any, TypeAdapter[Any]] = {}


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each declared type, because making one costs a thousand times more than using it."""
    if (known := _adapters.get(kind)) is None:
        known = _adapters.setdefault(kind, TypeAdapter(kind))
    return known
