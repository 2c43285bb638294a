"""Which of gRPC's statuses an error is, and how an answer's head and end are written."""

import math
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes

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
)
from falaj.serving.plane.asking import DeadlinePassed
from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.fields import write_field, write_status
from falaj.serving.plane.grpc.sending import Template

OK: Final = 0
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
UNAUTHENTICATED: Final = 16

# The first that fits: the special ones stand before the general.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (Invalid, INVALID_ARGUMENT),
    (Unauthenticated, UNAUTHENTICATED),
    (Forbidden, PERMISSION_DENIED),
    (NotFound, NOT_FOUND),
    (Conflict, FAILED_PRECONDITION),
    (TooLarge, RESOURCE_EXHAUSTED),
    (TooMany, RESOURCE_EXHAUSTED),
    (DeadlinePassed, DEADLINE_EXCEEDED),
    (TemporaryError, UNAVAILABLE),
)
_LONGEST_MESSAGE: Final = 1000
# Everything that is printed in ASCII but the percent sign stands as it is.
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

_GOOD_HEAD: Final = write_status(200) + write_field(b"content-type", b"application/grpc")
ANSWER_HEAD: Final = Template(_GOOD_HEAD, frames.END_HEADERS)
ANSWER_END: Final = Template(write_field(b"grpc-status", b"0"), frames.END_HEADERS | frames.END_STREAM)


class Refusal(FalajError):
    """What gRPC itself finds wrong with a call, beside the errors that all faces know."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: Exception) -> int:
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), INTERNAL)


def words_of(error: Exception) -> str:
    """What the caller may read; an error that was not made for him says nothing of the inside."""
    return str(error) if isinstance(error, FalajError) else "the server failed on this request; it says more in its log"


def error_end(error: Exception) -> bytes:
    """The trailers of a call that failed after its answer began."""
    delay = error.delay if isinstance(error, TemporaryError) and not isinstance(error, DeadlinePassed) else 0.0
    return _end(status_of(error), words_of(error)[:_LONGEST_MESSAGE], delay)


def error_alone(error: Exception) -> bytes:
    """An answer that is nothing but an error: head and trailers in one."""
    return _GOOD_HEAD + error_end(error)


def http_refusal(status: int) -> bytes:
    """To a client that does not speak gRPC."""
    return write_status(status) + write_field(b"content-length", b"0")


@lru_cache(maxsize=512)
def _end(status: int, message: str, delay: float) -> bytes:
    words = quote_from_bytes(message.encode(errors="replace"), safe=_PLAIN).encode()
    end = write_field(b"grpc-status", str(status).encode()) + write_field(b"grpc-message", words)
    if delay > 0:
        end += write_field(b"grpc-retry-pushback-ms", str(math.ceil(delay * 1000)).encode())
        end += write_field(b"retry-after", str(math.ceil(delay)).encode())
    return end
