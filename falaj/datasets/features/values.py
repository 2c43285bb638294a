"""Values of entities and features between JSON and what the online store has: without a data library, in microseconds."""

import base64
import binascii
import math
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.tables.types import Type

_DAY_ZERO: Final = date(1970, 1, 1)
_MIDNIGHT: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read(one: Any, kind: Type, *, name: str) -> Any:
    """A value of an entity's key. Whether it is of its type otherwise is seen by the store."""
    if not isinstance(one, str) or kind.word not in ("moment", "date", "bytes"):
        return one
    try:
        if kind.word == "moment":
            return int(Moment.parse(one))
        if kind.word == "date":
            return (date.fromisoformat(one) - _DAY_ZERO).days
        return base64.b64decode(one, validate=True)
    except (ValueError, binascii.Error):
        written = {"moment": "2026-11-15T09:30:00Z", "date": "2026-11-15", "bytes": "base64"}[kind.word]
        raise Invalid(f"{name!r} is a {kind.word}, written like {written}, and not {one[:60]!r}.") from None


def shown(one: Any, kind: Type) -> Any:
    """As rows for people and for JSON are told everywhere."""
    if one is None or kind.word in ("text", "bool"):
        return one
    if kind.word in ("list", "vector"):
        return [shown(each, kind.inner[0]) for each in one]
    if kind.word == "record":
        return {name: shown(one[name], inner) for name, inner in zip(kind.names, kind.inner, strict=True)}
    if kind.word == "decimal":
        return int(one) if not kind.sizes[1] else str(one)
    if isinstance(one, bytes):
        return base64.b64encode(one).decode()
    if isinstance(one, float):
        return one if math.isfinite(one) else str(one)
    return _time(one, kind.word)


def _time(one: int, word: str) -> Any:
    try:
        match word:
            case "moment":
                return (_MIDNIGHT + timedelta(microseconds=one)).isoformat().replace("+00:00", "Z")
            case "date":
                return (_DAY_ZERO + timedelta(days=one)).isoformat()
            case "time":
                return (_MIDNIGHT + timedelta(microseconds=one)).time().isoformat()
            case "duration":
                return str(timedelta(microseconds=one))
    except OverflowError:  # years that no calendar here knows
        return str(one)
    return one
