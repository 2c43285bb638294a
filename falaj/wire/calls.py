"""From the event loop into the dispatcher: straight into the writer's line where that is possible, else through a thread."""

import asyncio

import anyio

from falaj.base.errors import FalajError
from falaj.base.operation import Operation, Req, Res
from falaj.operations.dispatcher import Call, Dispatcher


class Calls:
    """Belongs to one event loop. At most `threads` calls are under way that wait in a thread."""

    def __init__(self, dispatcher: Dispatcher, threads: int) -> None:
        self._dispatcher = dispatcher
        self._most = threads
        self._threads: anyio.CapacityLimiter | None = None

    @property
    def threads(self) -> anyio.CapacityLimiter:
        """Made when it is first asked for, because it needs the loop."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._most)
        return self._threads

    async def __call__(self, operation: Operation[Req, Res], request: Req, call: Call) -> Res:
        try:
            future = self._dispatcher.shortcut(operation, request, call)
            if future is not None:
                return await asyncio.wrap_future(future)
        except FalajError:
            pass  # it left nothing: the long way refuses it again, with all that belongs to a refusal
        return await anyio.to_thread.run_sync(self._dispatcher.call, operation, request, call, limiter=self.threads)
