"""A face on a real loop in a thread of its own, for clients that are not of that loop."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from falaj.serving.plane.grpc.face import GrpcFace
from falaj.serving.plane.grpc.limits import Limits
from tests.serving.plane.grpc.arithmetic import ArithmeticCore


class Served:
    port: int
    core: ArithmeticCore
    face: GrpcFace
    server: asyncio.Server

    def __init__(self, limits: Limits, new_loop: Callable[[], asyncio.AbstractEventLoop], tls: ssl.SSLContext | None) -> None:
        self.limits = limits
        self.tls = tls
        self.loop = new_loop()
        self.problems: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, context: self.problems.append(context))
        self.thread = threading.Thread(target=self._run)
        self.ready = threading.Event()

    def _run(self) -> None:
        self.loop.run_until_complete(self._begin())
        self.ready.set()
        self.loop.run_forever()
        self.server.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _begin(self) -> None:
        self.core = ArithmeticCore()
        self.face = GrpcFace(self.core, version="1.2.3", limits=self.limits)
        self.server = await self.loop.create_server(self.face, "127.0.0.1", 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]

    def do(self, act: Callable[[], Any]) -> Any:
        """On the loop's thread."""

        async def acted() -> Any:
            return act()

        return asyncio.run_coroutine_threadsafe(acted(), self.loop).result(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def shared(self) -> Any:
        return self.face._shared

    def open_streams(self) -> int:
        return self.do(lambda: sum(len(connection.streams) for connection in self.shared.connections))

    def held(self) -> int:
        return self.do(lambda: self.shared.held.taken)


@contextmanager
def served(
    limits: Limits | None = None,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Served]:
    face = Served(limits or Limits(), new_loop, tls)
    face.thread.start()
    assert face.ready.wait(10)
    try:
        yield face
    finally:
        face.do(lambda: [connection._transport.abort() for connection in list(face.shared.connections)])
        face.loop.call_soon_threadsafe(face.loop.stop)
        face.thread.join(10)
    assert face.problems == []
