"""Cursors of searches: how far one got, good for the very search that gave them out."""

import hashlib
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.pages import cursor_after, read_cursor

FURTHEST = 2**53


def offset_of(cursor: str, *search: Any) -> int:
    if not cursor:
        return 0
    digest, offset = read_cursor(cursor, str, int)
    if digest != _digest(search) or not 0 <= int(offset) <= FURTHEST:
        raise Invalid("This cursor was given out by another search; start again without one.")
    return int(offset)


def cursor_at(offset: int, *search: Any) -> str:
    return cursor_after(_digest(search), offset)


def _digest(search: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(search).encode()).hexdigest()[:16]
