"""Cursor pagination: a cursor is the last key seen, opaque to the client and checked when it comes back."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from falaj.base.errors import Invalid
from falaj.base.values import Range, Text

T = TypeVar("T")
Limit = Annotated[int, Range(least=1, most=1000)]
Cursor = Annotated[str, Text(longest=500)]


def cursor_after(*key: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def read_cursor(cursor: str, *kinds: type[str] | type[int]) -> tuple[str | int, ...]:
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, UnicodeError, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or [type(part) for part in key] != list(kinds) or not all(_is_storable(part) for part in key):
        raise Invalid("This cursor was not given out by this listing; start again without one.")
    return tuple(key)


def read_text_cursor(cursor: str) -> str:
    """The cursor of a listing in the order of one text: the text to go on behind, empty at the beginning."""
    return str(read_cursor(cursor, str)[0]) if cursor else ""


def page_of(found: Sequence[T], limit: int, key: Callable[[T], tuple[str | int, ...]]) -> tuple[Sequence[T], str]:
    """A page, and the cursor behind it, of what was looked for with a limit of one more; the last page has no cursor."""
    page = found[:limit]
    return page, cursor_after(*key(page[-1])) if len(found) > len(page) else ""


def _is_storable(part: str | int) -> bool:
    """Whether a database could hold it: it will be compared with what one does."""
    if isinstance(part, int):
        return -(2**63) <= part < 2**63
    return part.isprintable()
