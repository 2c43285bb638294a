"""What a worker makes of all this: a factory of connections over one core."""

import asyncio
from typing import Final

from falaj.serving.plane.asking import Core
from falaj.serving.plane.grpc.http2 import Http2, Shared
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.service import Service

_LOOKS: Final = 0.01  # seconds


class GrpcFace:
    """Call it for the protocol of a new connection: `loop.create_server(GrpcFace(core), ...)`, or hand a transport over whose
    first bytes were read: `connection_made(transport)`, then `data_received(bytes)`. Belongs to one loop."""

    def __init__(
        self,
        core: Core,
        *,
        version: str = "",
        limits: Limits | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        limits = limits or Limits()
        self._shared = Shared(Service(core, limits, version), limits, loop or asyncio.get_running_loop())

    def __call__(self) -> Http2:
        return Http2(self._shared)

    @property
    def connections(self) -> int:
        return len(self._shared.connections)

    def drain(self) -> None:
        """Every connection answers what it was asked, and closes; those that open later do so at once."""
        self._shared.draining = True
        for connection in list(self._shared.connections):
            connection.drain()

    def ease(self, share: float) -> None:
        """Has so many of the clients connect anew, for another worker has less to do. Nothing that they ask fails by it."""
        connections = list(self._shared.connections)
        for connection in connections[: round(len(connections) * share)]:
            connection.drain()

    async def drained(self, grace: float) -> bool:
        """Whether all have closed within so many seconds: an answer that is given may still be on its way."""
        loop = self._shared.loop
        end = loop.time() + grace
        while self._shared.connections and loop.time() < end:  # noqa: ASYNC110 - nothing in connections for the sake of this
            await asyncio.sleep(_LOOKS)
        return not self._shared.connections
