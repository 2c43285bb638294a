"""The two families of errors, told apart by what the caller should do: wait and try again, or change something.

Rooms derive their own from the kinds below; only `api` knows which HTTP status each kind becomes.
"""


class FalajError(Exception):
    """An error whose message is meant for the person who caused it: what was given, what was expected, what to do next."""


class PermanentError(FalajError):
    """Trying the same again will fail the same way."""


class TemporaryError(FalajError):
    """The same call may succeed after `delay` seconds."""

    def __init__(self, message: str, *, delay: float = 1.0) -> None:
        super().__init__(message)
        self.delay = delay


class Invalid(PermanentError):
    """The request itself is wrong."""


class UnsupportedMedia(Invalid):
    """The body is of a kind this operation does not take."""


class Unauthenticated(PermanentError):
    """Nobody, or somebody whose proof does not hold."""


class Forbidden(PermanentError):
    """Known, and not allowed; `rule` names the policy that said no."""

    def __init__(self, message: str, *, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class NotFound(PermanentError):
    """It does not exist, or the caller may not know that it does: the two look the same."""


class Conflict(PermanentError):
    """The thing is in a state that does not admit the request."""


class TooLarge(PermanentError):
    """More than a stated limit."""


class Corrupt(PermanentError):
    """Stored bytes are not what was stored: changed, cut, swapped or lost."""


class Misconfigured(PermanentError):
    """The platform itself is set up wrongly; whoever asked can do nothing about it, an operator can."""


class TooMany(TemporaryError):
    """The caller asks more often than its share."""


class Unavailable(TemporaryError):
    """A part the call needs does not answer now."""


class OutOfSpace(TemporaryError):
    """The disk or the database is full; reading goes on."""
