"""Answers that scripts read."""

import json
from typing import Any, Final

NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


def for_scripts(document: bytes) -> bytes:
    """JSON as charts want it: a value that is no finite number, which our own JSON spells as a text, becomes null."""
    if b'"NaN"' not in document and b'Infinity"' not in document:
        return document
    return json.dumps(_without_gaps(json.loads(document)), separators=(",", ":"), allow_nan=False).encode()


def _without_gaps(part: Any, name: str = "") -> Any:
    """`name` is the field that a part stands in: only values are numbers, and a key may well be called NaN."""
    if isinstance(part, list):
        return [_without_gaps(item, name) for item in part]
    if isinstance(part, dict):
        return {key: _without_gaps(item, key) for key, item in part.items()}
    return None if name in ("value", "values") and part in NOT_FINITE else part
