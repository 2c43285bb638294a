"""Requests and results on their way to JSON and back: pydantic's reading of the frozen values that rooms declare."""

from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from falaj.base.values import Secret, marks

_adapters: dict[Any, TypeAdapter[Any]] = {}


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each declared type, because making one costs a thousand times more than using it."""
    if (known := _adapters.get(kind)) is None:
        known = _adapters.setdefault(kind, TypeAdapter(kind))
    return known


def without_secrets(request: Any) -> bytes:
    """The request as JSON, as it enters a digest."""
    kind: Any = type(request)
    return adapter(kind).dump_json(request, exclude=_secrets_of(kind))


@cache
def _secrets_of(kind: Any) -> set[str] | None:
    """None, where there are none, lets pydantic skip the look-up."""
    return {field.name for field in fields(kind) if _is_secret(kind, field.name)} or None


def _is_secret(kind: Any, field: str) -> bool:
    return any(isinstance(mark, Secret) or mark is Secret for mark in marks(kind, field))
