"""Feature views and values as JSON and back, with the same bits: without a data library, for both sides of a worker's walls."""

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.types import Type

Change = Callable[[Any], Any]
_BITS: Final = struct.Struct("<q")
_FLOAT: Final = struct.Struct("<d")


def told_view(view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "keys": [[key.column, key.label] for key in view.keys],
        "event": view.event,
        "known": view.known,
        "features": [[one.name, one.column, one.function, one.period] for one in view.features],
        "time_to_live": view.time_to_live,
    }


def heard_view(told: Mapping[str, Any]) -> View:
    return View(
        name=told["name"],
        keys=tuple(Key(column=column, label=label) for column, label in told["keys"]),
        event=told["event"],
        known=told["known"],
        features=tuple(
            Feature(name=name, column=column, function=function, period=period)
            for name, column, function, period in told["features"]
        ),
        time_to_live=told["time_to_live"],
    )


def telling(kind: Type) -> Change | None:
    """What makes JSON of a plain value of this type; None where it is JSON already. JSON has no NaN with its bits."""
    return _changing(kind, {"float32": _told_float, "float64": _told_float, "decimal": str, "bytes": _told_bytes})


def hearing(kind: Type) -> Change | None:
    """The way back. Raises what Python raises where it is no such value."""
    return _changing(kind, {"float32": _heard_float, "float64": _heard_float, "decimal": Decimal, "bytes": _heard_bytes})


def _changing(kind: Type, changes: Mapping[str, Change]) -> Change | None:
    if (change := changes.get(kind.word)) is not None:
        return _or_none(change)
    inner = [_changing(one, changes) for one in kind.inner]
    if not any(inner):
        return None
    if kind.word == "record":
        return _or_none(lambda one: _record(one, kind.names, inner))
    return _or_none(lambda some: [each if inner[0] is None else inner[0](each) for each in some])


def _record(one: Mapping[str, Any], names: Sequence[str], inner: Sequence[Change | None]) -> dict[str, Any]:
    return {name: one[name] if change is None else change(one[name]) for name, change in zip(names, inner, strict=True)}


def _or_none(change: Change) -> Change:
    return lambda one: None if one is None else change(one)


def _told_float(one: float) -> int:
    bits: int = _BITS.unpack(_FLOAT.pack(one))[0]
    return bits


def _heard_float(bits: int) -> float:
    one: float = _FLOAT.unpack(_BITS.pack(bits))[0]
    return one


def _told_bytes(one: bytes) -> str:
    return base64.b64encode(one).decode()


def _heard_bytes(told: str) -> bytes:
    return base64.b64decode(told, validate=True)
