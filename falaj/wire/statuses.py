"""Which HTTP status each kind of error becomes, and which kind a status means to a client."""

from falaj.base import errors
from falaj.base.errors import FalajError

# The first that fits counts; for a client, the first of a status.
STATUSES: tuple[tuple[type[FalajError], int], ...] = (
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.TooLarge, 413),
    (errors.UnsupportedMedia, 415),
    (errors.Invalid, 400),
    (errors.Corrupt, 500),
    (errors.Misconfigured, 500),
    (errors.TooMany, 429),
    (errors.OutOfSpace, 507),
    (errors.Unavailable, 503),
    (errors.TemporaryError, 503),
    (errors.PermanentError, 400),
)
_BETWEEN = (502, 504)  # said by a proxy, such as the one jobs speak through, while the server behind it is away


def status_of(error: FalajError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def kind_of(status: int) -> type[FalajError]:
    """What to raise for an answer. What went wrong inside the server, a client cannot tell."""
    if status in _BETWEEN:
        return errors.Unavailable
    return next((kind for kind, known in STATUSES if known == status != 500), errors.PermanentError)
