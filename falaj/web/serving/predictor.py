"""How the console tries an endpoint: a browser may not call a plane from our pages, so whoever runs the console does."""

from typing import Any, Protocol

from falaj.base.values import value


@value
class Question:
    """`url` is what the platform reports for the endpoint, never what somebody typed, and `certificates` (PEM) what the
    planes there show. `body` is JSON."""

    url: str
    certificates: tuple[str, ...] = ()
    token: str
    endpoint: str
    body: bytes
    key: str = ""
    revision: int = 0


@value
class Prediction:
    """What the plane answered, a refusal included. `document` is the JSON of it."""

    status: int
    document: Any
    revision: str
    version: str
    milliseconds: float


class Predictor(Protocol):
    """Thread-safe. Asks once, waits a few seconds at most, follows no redirect and reads a bounded answer.

    Raises `Unavailable` where nothing answers or what does is no plane, and `TooLarge` for a longer answer.
    """

    def predict(self, question: Question) -> Prediction: ...
