"""Answers as HTTP writes them: status lines, and which status each kind of error becomes."""

from http import HTTPStatus
from math import ceil
from typing import Final

import msgspec

from falaj.base.errors import (
    Conflict,
    FalajError,
    Forbidden,
    Invalid,
    NotFound,
    TemporaryError,
    TooLarge,
    TooMany,
    Unauthenticated,
    UnsupportedMedia,
)
from falaj.serving.plane.asking import DeadlinePassed
from falaj.serving.plane.rest.heads import ExpectationFailed, HeadTooLarge, NotAllowed, TooSlow

JSON: Final = b"application/json"
BINARY: Final = b"application/octet-stream"
TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"
# The first that fits counts, so the narrower kinds come first.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (UnsupportedMedia, 415),
    (Invalid, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (NotAllowed, 405),
    (TooSlow, 408),
    (Conflict, 409),
    (TooLarge, 413),
    (ExpectationFailed, 417),
    (TooMany, 429),
    (HeadTooLarge, 431),
    (DeadlinePassed, 504),
    (TemporaryError, 503),
)
LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_SHOWN_MOST: Final = 4_000


def status_of(error: Exception) -> int:
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return 500


def error_body(error: Exception) -> bytes:
    """What went wrong inside is nobody's business outside: only errors that were written for the caller are shown."""
    text = str(error) if isinstance(error, FalajError) else "the server failed; the operator finds the reason in its log"
    return msgspec.json.encode({"error": text.encode("utf-8", "replace").decode()[:_SHOWN_MOST]})


def error_lines(error: Exception) -> bytes:
    """The lines of the head that tell a client what to do next."""
    if isinstance(error, DeadlinePassed):
        return b""
    if isinstance(error, TemporaryError):
        return b"retry-after: %d\r\n" % max(1, ceil(error.delay))
    if isinstance(error, Unauthenticated):
        return b"www-authenticate: Bearer\r\n"
    if isinstance(error, NotAllowed):
        return b"allow: %b\r\n" % error.allowed.encode("ascii")
    return b""
