"""Where lookups are made: in threads beside the loop, each request in one reading of the store."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from falaj.base.clock import Clock
from falaj.runtimes.engine import Engine
from falaj.serving.plane.asking import Answer, Ask, Reply
from falaj.serving.plane.lookups.joining import Joined, Lookup
from falaj.serving.plane.lookups.views import Views

if TYPE_CHECKING:  # a model has its lookup
    from falaj.serving.plane.core.models import Model

_AT_ONCE: Final = 4


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

    def lookup_for(self, model: "Model", engine: Engine) -> Lookup | None:
        """In the thread that loads the model. Raises where what it needs cannot be looked up here."""
        revision = model.revision
        if not revision.lookups:
            return None
        views = self._views.of(model.endpoint.project, revision.lookups)
        for view in views:
            view.check()
        return Lookup(views, tuple(engine.inputs), revision.columns, model.endpoint.name, self._clock)

    def join(self, lookup: Lookup, ask: Ask, done: Callable[[Exception | None], None]) -> None:
        """`done` is told on the loop, once the request has what the model takes, or why not."""

        def settle(future: "asyncio.Future[Joined]") -> None:
            failure = future.exception()
            if failure is None:
                joined = future.result()
                ask.given, ask.entities, ask.looked = joined.given, joined.entities, joined.looked
                if joined.unknown:
                    ask.reply = Telling(ask.reply, joined.unknown)
            done(failure if failure is None or isinstance(failure, Exception) else RuntimeError(str(failure)))

        asyncio.get_running_loop().run_in_executor(self._threads, lookup.joined, ask.given).add_done_callback(settle)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._views.close()
