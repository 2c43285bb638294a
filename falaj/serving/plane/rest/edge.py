"""The HTTP/1.1 edge of a worker: makes a `Connection` for each client, watches the time, and ends in good order."""

import asyncio
from collections.abc import Callable
from email.utils import formatdate

from falaj.serving.plane.rest.answers import LINES
from falaj.serving.plane.rest.connections import Connection
from falaj.serving.plane.rest.exchanges import Shared
from falaj.serving.plane.rest.heads import Find
from falaj.serving.plane.rest.limits import Limits


class Edge:
    """The protocol factory for `loop.create_server`; made on the loop it serves.

    `h2` makes the protocol that takes over a connection which turns out to speak HTTP/2. `report` is told of errors that were
    not written for callers.
    """

    def __init__(
        self,
        find: Find,
        *,
        limits: Limits | None = None,
        h2: Callable[[], asyncio.Protocol] | None = None,
        report: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        self.shared = Shared(find, limits=limits, h2=h2, report=report)
        self._open: set[Connection] = set()
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._sweep()

    def __call__(self) -> Connection:
        return Connection(self.shared, self)

    @property
    def connections(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> bool:
        connection.parting = self._draining
        self._open.add(connection)
        self._empty.clear()
        return len(self._open) <= self.shared.limits.connections

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    def ease(self, share: float) -> None:
        """Has so many of the clients connect anew after their next answer, for another worker has less to do."""
        for connection in tuple(self._open)[: round(len(self._open) * share)]:
            connection.parting = True

    async def drain(self, grace: float, *, leaving: bool = True) -> None:
        """Lets what is under way end, and cuts off what has not ended after so many seconds. A client between two requests
        looks idle: it gets a last call, for closing on the request it is about to send would fail it. The listening socket is
        closed by whoever opened it. Where this worker ends and not the whole host, nobody is `leaving`: the host is ready."""
        self._draining, self.shared.leaving = True, leaving
        self.ease(1.0)
        last_call = min(1.0, grace / 4)
        if not await self._emptied(last_call):
            for connection in tuple(self._open):
                connection.close_if_idle()
            if not await self._emptied(grace - last_call):
                for connection in tuple(self._open):
                    connection.abort()
        self._timer.cancel()

    async def _emptied(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def _sweep(self) -> None:
        """Once a second: connections do not watch the time themselves, for a timer costs more than a request."""
        shared = self.shared
        shared.now = shared.loop.time()
        shared.date = b"date: %b\r\n" % formatdate(usegmt=True).encode("ascii")
        shared.ok = LINES[200] + shared.date
        for connection in tuple(self._open):
            connection.check(shared.now)
        self._timer = shared.loop.call_later(1.0, self._sweep)
