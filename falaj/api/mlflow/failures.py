"""Errors as MLflow writes them: a code out of its own list, a message, and the status that code has there."""

from typing import Final

from falaj.base import errors
from falaj.base.errors import FalajError, PermanentError

INVALID: Final = "INVALID_PARAMETER_VALUE"
EXISTS: Final = "RESOURCE_ALREADY_EXISTS"

STATUSES: Final = {
    INVALID: 400,
    EXISTS: 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_DOES_NOT_EXIST": 404,
    "ENDPOINT_NOT_FOUND": 404,
    "REQUEST_LIMIT_EXCEEDED": 429,
    "DATA_LOSS": 500,
    "INTERNAL_ERROR": 500,
    "NOT_IMPLEMENTED": 501,
    "TEMPORARILY_UNAVAILABLE": 503,
}

# The first that fits counts. A conflict means different things to MLflow's clients, so each endpoint says which.
_CODES: Final[tuple[tuple[type[FalajError], str], ...]] = (
    (errors.Unauthenticated, "UNAUTHENTICATED"),
    (errors.Forbidden, "PERMISSION_DENIED"),
    (errors.NotFound, "RESOURCE_DOES_NOT_EXIST"),
    (errors.Corrupt, "DATA_LOSS"),
    (errors.Misconfigured, "INTERNAL_ERROR"),
    (errors.TooMany, "REQUEST_LIMIT_EXCEEDED"),
    (errors.TemporaryError, "TEMPORARILY_UNAVAILABLE"),
    (errors.PermanentError, INVALID),
)


class NotServed(PermanentError):
    """MLflow has this and Falaj has not; clients take the code as a reason to warn, and go on."""


class NoEndpoint(PermanentError):
    """Neither has it."""


def code_of(error: FalajError, conflict: str = INVALID) -> str:
    """`conflict` is what a `Conflict` means at this endpoint."""
    match error:
        case NotServed():
            return "NOT_IMPLEMENTED"
        case NoEndpoint():
            return "ENDPOINT_NOT_FOUND"
        case errors.Conflict():
            return conflict
    return next((code for kind, code in _CODES if isinstance(error, kind)), "INTERNAL_ERROR")
