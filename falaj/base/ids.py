"""Ids are UUIDv7 as 32 hex digits: they sort by time of birth and say nothing else. Each kind of id is its own type."""

import os
import threading
from typing import NewType

from falaj.base.clock import Moment

ProjectId = NewType("ProjectId", str)
PrincipalId = NewType("PrincipalId", str)
TokenId = NewType("TokenId", str)
BlobId = NewType("BlobId", str)
LeafId = NewType("LeafId", str)

_lock = threading.Lock()
_last = 0


def new_id(now: Moment) -> str:
    """A fresh UUIDv7. Ids made in one process strictly increase, also within one millisecond."""
    global _last
    stamp = (now // 1000) << 74 | int.from_bytes(os.urandom(9)) << 2
    with _lock:
        _last = stamp = max(stamp, _last + 1)
    milliseconds, random = stamp >> 74, stamp & (1 << 74) - 1
    number = milliseconds << 80 | 0x7 << 76 | (random >> 62) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return f"{number:032x}"


def earliest_id(now: Moment) -> str:
    """Every id that was born since then sorts behind it."""
    return f"{max(now, 0) // 1000:012x}"
