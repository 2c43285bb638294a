"""Asynchronous predictions: taken now, answered later to whoever asks for them by their id, or sent to a callback."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import FalajError, TemporaryError, Unavailable
from falaj.base.values import value
from falaj.serving.plane.asking import Answer, DeadlinePassed
from falaj.serving.plane.rest.answers import JSON, error_body, error_lines, status_of
from falaj.serving.plane.rest.codec import Asked, Body
from falaj.serving.plane.rest.exchanges import Exchange, Line
from falaj.serving.plane.rest.heads import Head
from falaj.serving.plane.rest.predictions import Predictions, is_large
from falaj.serving.plane.rest.stores import SHARE, Kept, Store, new_id

_POLL_AFTER: Final = b"retry-after: 1\r\n"


class Callbacks(Protocol):
    """Sends answers to where callers want them. `permit` gives the id of the endpoint, which `send` wants; it raises where its
    answers may not go to this URL, and where the URL is none. `send` signs what it sends, tries again by itself and never
    raises."""

    def permit(self, token: str, endpoint: str, url: str) -> str: ...

    async def send(self, *, url: str, endpoint: str, id: str, kept: Kept) -> None: ...


@value
class Patience:
    """Seconds. `running` is how long an answer may take, being tried again while the endpoint is too busy; `kept` how long it
    can be fetched. `waiting` bounds the predictions that one worker has under way like this."""

    running: float = 600.0
    kept: float = 3_600.0
    waiting: int = 1_000


class Deferrals:
    """`identify` gives a caller's lasting name by its token, which may change between asking and fetching, and by where it is;
    it raises `Unauthenticated` for a token that does not hold."""

    def __init__(
        self,
        store: Store,
        identify: Callable[[str, str], str],
        clock: Clock,
        *,
        callbacks: Callbacks | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._store = store
        self._identify = identify
        self._clock = clock
        self._callbacks = callbacks
        self._patience = patience or Patience()
        self._waiting: Counter[str] = Counter()  # by project
        self._sending = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def defer(self, connection: Line, head: Head, body: Body, arrived: float, predictions: Predictions, plain: bool) -> None:
        exchange = Exchange(connection, head, arrived)
        exchange.attend(self._defer(exchange, bytes(body), predictions, plain))

    async def _defer(self, exchange: Exchange, body: bytes, predictions: Predictions, plain: bool) -> None:
        head = exchange.head
        caller = self._identify(head.token, exchange.source)
        predictions.core.describe(head.token, head.name, head.version or head.override)
        endpoint = self._permit(head) if head.callback else ""
        asked = await predictions.read_large(head, body, plain, lambda: not exchange.gone)
        most, project = self._patience.waiting, _project(caller)
        if self._waiting.total() >= most or self._waiting[project] >= -(-most // SHARE):
            raise Unavailable("too many asynchronous predictions are under way; try again", delay=2)
        id = new_id(caller)
        await self._store.open(id, caller, self._until(self._patience.running + self._patience.kept))
        self._waiting[project] += 1
        self._idle.clear()
        reply = _Later(self, predictions, exchange, asked, plain, id, caller, endpoint)
        path = b"/v2/requests/%b" % id.encode()
        exchange.respond(
            202, _running(id), lines=b"location: %b\r\npreference-applied: respond-async\r\n%b" % (path, _POLL_AFTER)
        )
        reply.ask()

    def _permit(self, head: Head) -> str:
        if self._callbacks is None:
            raise Unavailable("callbacks are not set up here: leave x-falaj-callback out and poll", delay=60)
        return self._callbacks.permit(head.token, head.name, head.callback)

    def _until(self, seconds: float) -> int:
        return self._clock.now() + int(seconds * SECOND)

    async def keep(self, reply: "_Later", kept: Kept) -> None:
        """The answer is there; who drains waits until it is where it should be."""
        try:
            await self._store.finish(reply.id, reply.caller, self._until(self._patience.kept), kept)
        except FalajError as error:
            reply.report(error)
        self._waiting[_project(reply.caller)] -= 1
        if reply.endpoint and self._callbacks is not None:  # a receiver that does not answer must not keep others waiting
            self._sending += 1
            await self._callbacks.send(url=reply.head.callback, endpoint=reply.endpoint, id=reply.id, kept=kept)
            self._sending -= 1
        if not self._waiting.total() and not self._sending:
            self._waiting.clear()
            self._idle.set()

    async def drain(self, grace: float) -> None:
        """Lets what is under way end, for so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._idle.wait()

    @property
    def running(self) -> float:
        return self._patience.running

    def poll(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        exchange = Exchange(connection, head, arrived)
        exchange.attend(self._poll(exchange))

    async def _poll(self, exchange: Exchange) -> None:
        kept = await self._store.read(exchange.head.name, self._identify(exchange.head.token, exchange.source))
        if kept is None:
            exchange.respond(202, _running(exchange.head.name), lines=_POLL_AFTER)
        else:
            exchange.respond(kept.status, kept.body, kept.kind, kept.lines)


def _project(caller: str) -> str:
    return caller.partition(":")[0]


def _running(id: str) -> bytes:
    return msgspec.json.encode({"id": id, "state": "running"})


class _Later:
    """The core's `Reply` for a prediction nobody holds a connection for. Asks again while the endpoint is too busy."""

    __slots__ = (
        "_asked",
        "_deferrals",
        "_end",
        "_plain",
        "_predictions",
        "_shared",
        "caller",
        "endpoint",
        "gone",
        "head",
        "id",
    )

    def __init__(
        self,
        deferrals: Deferrals,
        predictions: Predictions,
        exchange: Exchange,
        asked: Asked,
        plain: bool,
        id: str,
        caller: str,
        endpoint: str,
    ) -> None:
        self._deferrals = deferrals
        self._predictions = predictions
        self._asked = asked
        self._plain = plain
        self._shared = exchange.connection.shared
        self._end = self._shared.loop.time() + deferrals.running
        self.head = exchange.head
        self.id = id
        self.caller = caller
        self.endpoint = endpoint  # that a callback is of; empty where none is wanted
        self.gone = False

    def report(self, error: Exception) -> None:
        self._shared.report(error)

    def ask(self) -> None:
        self._predictions.ask(self.head, self._asked, self._shared.loop.time(), self)

    def answer(self, answer: Answer) -> None:
        self._shared.spawn(self._keep(answer))

    async def _keep(self, answer: Answer) -> None:
        try:
            if is_large(answer, self._asked, self._plain):
                written = await self._predictions.write_large(answer, self._asked, self._plain, lambda: True)
            else:
                written = self._predictions.write(answer, self._asked, self._plain)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to who asked
            self._end = 0.0
            self.refuse(error)
            return
        kept = Kept(status=200, kind=written.kind, lines=written.lines, body=b"".join(written.parts))
        await self._deferrals.keep(self, kept)

    def refuse(self, error: Exception) -> None:
        if isinstance(error, TemporaryError) and not isinstance(error, DeadlinePassed):
            if self._shared.loop.time() < self._end:
                self._shared.loop.call_later(max(0.05, error.delay), self.ask)
                return
        elif not isinstance(error, FalajError):
            self._shared.report(error)
        kept = Kept(status=status_of(error), kind=JSON, lines=error_lines(error), body=error_body(error))
        self._shared.spawn(self._deferrals.keep(self, kept))
