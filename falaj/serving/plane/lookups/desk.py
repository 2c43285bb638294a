"""Where lookups are made: in threads beside the loop, each request in one reading of the store.

Projects take turns, and none has all of the threads. Who waited for longer than is of use is refused, and nothing is looked up
for somebody who hung up.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from falaj.base.clock import Clock
from falaj.base.errors import Unavailable
from falaj.runtimes.engine import Engine
from falaj.serving.plane.asking import Answer, Ask, DeadlinePassed, Reply
from falaj.serving.plane.lookups.joining import Joined, Lookup
from falaj.serving.plane.lookups.views import Views

if TYPE_CHECKING:  # a model has its lookup
    from falaj.serving.plane.core.models import Model

_AT_ONCE: Final = 4
_OF_ONE_PROJECT: Final = 3
_PATIENCE: Final = 1.0  # seconds, or the endpoint's objective where that is longer


class Crowded(Unavailable):
    """So much waits to be looked up that this would not have come in time."""


class _Waiting(NamedTuple):
    lookup: Lookup
    ask: Ask
    until: float
    done: Callable[[Exception | None], None]


class Telling:
    """A reply that tells of how many entities nothing was known."""

    __slots__ = ("_reply", "_unknown")

    def __init__(self, reply: Reply, unknown: int) -> None:
        self._reply, self._unknown = reply, unknown

    @property
    def gone(self) -> bool:
        return self._reply.gone

    def answer(self, answer: Answer) -> None:
        answer.unknown = self._unknown
        self._reply.answer(answer)

    def refuse(self, error: Exception) -> None:
        self._reply.refuse(error)


class Desk:
    """Belongs to the loop's thread, but for `lookup_for`."""

    def __init__(self, views: Views, clock: Clock) -> None:
        self._views, self._clock = views, clock
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="looking up")
        self._waiting: dict[str, deque[_Waiting]] = {}  # by project, whose turn it is first
        self._running: dict[str, int] = {}
        self._closing = False

    def lookup_for(self, model: "Model", engine: Engine) -> Lookup | None:
        """In the thread that loads the model. Raises where what it needs cannot be looked up here."""
        revision = model.revision
        if not revision.lookups:
            return None
        views = self._views.of(model.endpoint.project, revision.lookups)
        for view in views:
            view.check()
        return Lookup(views, tuple(engine.inputs), revision.columns, model.endpoint.name, self._clock)

    def join(self, lookup: Lookup, ask: Ask, latency_ms: float, done: Callable[[Exception | None], None]) -> None:
        """`done` is told on the loop, once the request has what the model takes, or why not."""
        until = time.monotonic() + max(_PATIENCE, latency_ms / 1000)
        self._waiting.setdefault(lookup.project, deque()).append(_Waiting(lookup, ask, until, done))
        self._begin()

    def _begin(self) -> None:
        while sum(self._running.values()) < _AT_ONCE and not self._closing:
            project = next((one for one in self._waiting if self._running.get(one, 0) < _OF_ONE_PROJECT), None)
            if project is None:
                return
            mine = self._waiting.pop(project)
            one = mine.popleft()
            if mine:
                self._waiting[project] = mine  # behind the others
            refusal = _refusal(one)
            if refusal is None:
                self._run(project, one)
            else:
                one.done(refusal)

    def _run(self, project: str, one: _Waiting) -> None:
        self._running[project] = self._running.get(project, 0) + 1

        def settle(future: "asyncio.Future[Joined]") -> None:
            self._running[project] -= 1
            if not self._running[project]:
                del self._running[project]
            self._begin()
            _settle(one, future)

        asyncio.get_running_loop().run_in_executor(self._threads, one.lookup.joined, one.ask.given).add_done_callback(settle)

    def close(self) -> None:
        self._closing = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._views.close()


def _refusal(one: _Waiting) -> Exception | None:
    now = time.monotonic()
    if one.ask.reply.gone:
        return DeadlinePassed("Whoever asked does not wait any more.")
    if one.ask.deadline is not None and now > one.ask.deadline:
        return DeadlinePassed("The deadline passed before features were looked up.")
    if now > one.until:
        return Crowded("Too many features wait to be looked up for this to come in time.", delay=_PATIENCE)
    return None


def _settle(one: _Waiting, future: "asyncio.Future[Joined]") -> None:
    failure, ask = future.exception(), one.ask
    if failure is None:
        joined = future.result()
        ask.sent, ask.given, ask.entities, ask.looked = ask.given, joined.given, joined.entities, joined.looked
        if joined.unknown:
            ask.reply = Telling(ask.reply, joined.unknown)
    one.done(failure if failure is None or isinstance(failure, Exception) else RuntimeError(str(failure)))
