"""Canonical JSON: one value, one sequence of bytes, so that digests of records can be compared."""

import json
from typing import Any


def canonical(document: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
