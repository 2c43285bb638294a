"""A request and its answer, as those see it who answer; and what all connections of a worker share."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from falaj.base.errors import FalajError
from falaj.serving.plane.rest.answers import JSON, LINES, error_body, error_lines, status_of
from falaj.serving.plane.rest.heads import Find, Head, Heads
from falaj.serving.plane.rest.limits import Limits
from falaj.serving.plane.shares import Shares

CLOSE: Final = b"connection: close\r\n\r\n"
_SCRATCH: Final = 64 * 1024


class Shared:
    """What the connections of one worker share. Belongs to the loop's thread.

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
        self.limits = limits or Limits()
        self.heads = Heads(find, self.limits)
        self.h2 = h2
        self.report = report
        self.loop = asyncio.get_running_loop()
        # One buffer for all: a read fills it and is dealt with before the next read, whoever's that is.
        self.scratch = bytearray(_SCRATCH)
        self.view = memoryview(self.scratch)
        self.leaving = False  # the host as a whole
        self.shares = Shares(self.limits.buffered)  # for bodies that are not complete
        self.now = self.loop.time()  # to the second
        self.date = b""
        self.ok = b""  # how every good answer begins, up to the date
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs what cannot be done at once. The loop holds tasks only weakly, so they are held here."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Line(Protocol):
    """A connection, as an exchange sees it. The next answer of one that is `parting` is its last."""

    parting: bool

    @property
    def shared(self) -> Shared: ...

    @property
    def source(self) -> str:
        """The client's address."""
        ...

    exchange: "Exchange | None"

    def finish(self, data: bytes, keep: bool) -> None:
        """Sends the present exchange's whole answer."""
        ...

    def finish_parts(self, parts: list[bytes | memoryview], keep: bool) -> None: ...


class Exchange:
    """One request and the answer it waits for. One answer is given; once the client is `gone`, giving it does nothing."""

    __slots__ = ("arrived", "connection", "gone", "head")

    def __init__(self, connection: Line, head: Head, arrived: float) -> None:
        self.connection = connection
        self.head = head
        self.arrived = arrived
        self.gone = False
        connection.exchange = self

    @property
    def source(self) -> str:
        return self.connection.source

    def respond(self, status: int, body: bytes, kind: bytes = JSON, lines: bytes = b"") -> None:
        connection, head = self.connection, self.head
        if connection.exchange is not self:
            return  # the client is gone, or has its answer
        keep = head.keep and not connection.parting
        content = b"content-type: %b\r\ncontent-length: %d\r\n" % (kind, len(body)) if status != 204 else b""
        connection.finish(
            b"".join(
                (
                    LINES[status],
                    connection.shared.date,
                    content,
                    lines,
                    head.ending if keep else CLOSE,
                    b"" if head.is_head else body,
                )
            ),
            keep,
        )

    def attend(self, work: Coroutine[Any, Any, None]) -> None:
        """Has the answer given by what cannot be done at once."""
        self.connection.shared.spawn(self._attend(work))

    async def _attend(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            self.refuse(error)

    def refuse(self, error: Exception) -> None:
        if not isinstance(error, FalajError):
            self.connection.shared.report(error)
        self.respond(status_of(error), error_body(error), JSON, error_lines(error))
