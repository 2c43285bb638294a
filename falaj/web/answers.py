"""Answers that scripts read."""

import json
import math
from typing import Any


def for_scripts(document: bytes) -> bytes:
    """JSON that every browser reads: what is not a finite number, which our own JSON may hold, becomes null."""
    if b"NaN" not in document and b"Infinity" not in document:
        return document
    return json.dumps(_without_gaps(json.loads(document)), separators=(",", ":"), allow_nan=False).encode()


def _without_gaps(part: Any) -> Any:
    if isinstance(part, float):
        return part if math.isfinite(part) else None
    if isinstance(part, list):
        return [_without_gaps(item) for item in part]
    if isinstance(part, dict):
        return {key: _without_gaps(item) for key, item in part.items()}
    return part
