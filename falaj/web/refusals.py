"""Errors as pages: what happened, which rule, what to do next."""

from http import HTTPStatus
from typing import Final

from falaj.base.errors import FalajError, Forbidden, TemporaryError
from falaj.base.values import value
from falaj.wire.statuses import status_of

_TITLES: Final = {
    400: "That could not be understood",
    401: "Please sign in",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not done this way",
    409: "That does not fit the present state",
    413: "Too large",
    429: "Too many requests",
    500: "Something went wrong on our side",
    503: "A part does not answer",
    507: "Out of space",
}


@value
class Refusal:
    """An error as the error page tells it."""

    status: int
    message: str
    rule: str = ""
    delay: int = 0

    @property
    def title(self) -> str:
        return _TITLES.get(self.status) or HTTPStatus(self.status).phrase


def refusal_of(error: FalajError) -> Refusal:
    return Refusal(
        status=status_of(error),
        message=str(error),
        rule=error.rule if isinstance(error, Forbidden) else "",
        delay=max(1, round(error.delay)) if isinstance(error, TemporaryError) else 0,
    )
