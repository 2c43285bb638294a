"""Values as profiles keep them, as numbers, and as they show them."""

import datetime
import decimal
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

_LONGEST_SHOWN: Final = 200
_DAY: Final = 86_400_000_000


def said(word: str, raw: Any) -> Any:
    """A number as it is, a time as text."""
    if isinstance(raw, decimal.Decimal):
        return str(raw)
    if isinstance(raw, float) and not math.isfinite(raw):
        return str(raw)
    if word in ("moment", "date"):
        try:
            span = datetime.timedelta(microseconds=round(raw)) if word == "moment" else datetime.timedelta(days=round(raw))
            at = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + span
        except OverflowError:
            return str(raw)
        return at.isoformat().replace("+00:00", "Z") if word == "moment" else at.date().isoformat()
    if word == "time":
        clock = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=round(raw) % _DAY)
        return clock.time().isoformat()
    return raw


def plain(there: pa.Array) -> pa.Array:
    """Times as the numbers they are kept in."""
    if pa.types.is_temporal(there.type):
        return there.view(pa.int32() if there.type.bit_width == 32 else pa.int64())
    return there


def floats(there: pa.Array) -> Any:
    return np.asarray(plain(there).cast(pa.float64(), safe=False))


def short(one: Any) -> Any:
    if isinstance(one, str):
        return one[:_LONGEST_SHOWN]
    return one if isinstance(one, bool | int) else str(one)


def spelled(one: Any) -> Any:
    return str(one) if isinstance(one, decimal.Decimal | float) else one


def least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def most(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)
