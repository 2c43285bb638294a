"""Has large JSON read in a process apart, so that nobody waits for it but who sent it."""

import asyncio
import socket
import subprocess  # nosec B404 - starts this same interpreter, with nothing of a caller's in the command
import sys
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Final

import msgspec

from falaj.base.errors import Unavailable
from falaj.serving.plane.asking import DeadlinePassed, Described
from falaj.serving.plane.rest.codec import Asked, Body
from falaj.serving.plane.rest.reading import LENGTHS, Job, Read, asked_of
from falaj.serving.plane.shares import Shares

AT_ONCE: Final = 128 * 1024  # bytes of JSON that are read where they are: in the worst case 30 ms
_WAITING: Final = 256 * 1024 * 1024  # bytes that may wait to be read
_READS_WITHIN: Final = 60.0
_IDLE: Final = 60.0  # seconds without work, after which the process is ended
_decode: Final = msgspec.msgpack.Decoder(Read).decode
_encode: Final = msgspec.msgpack.encode


class Apart:
    """One process, which is started when there is something to read and ended when there is not. Projects take turns with it.
    Belongs to the loop's thread."""

    def __init__(self, *, waiting: int = _WAITING, idle: float = _IDLE) -> None:
        self._shares = Shares(waiting)
        self._idle = idle
        self._queue: dict[str, deque[asyncio.Future[None]]] = {}  # by project; who had the last turn is the last in it
        self._busy = False
        self._process: _Process | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def read(
        self, body: Body, most: int, described: Described | None, *, project: str, is_wanted: Callable[[], bool]
    ) -> Asked:
        """As `read_records` does for a model that is described, else as `read_infer`; with all tensors but BYTES in binary.

        `is_wanted` is asked when its turn comes: whoever gave up meanwhile is not read.
        """
        share, size = self._shares.of(project), len(body)
        if not share.take(size):
            raise Unavailable("too many large requests wait to be read; try again, or send tensors in binary", delay=1)
        try:
            await self._turn(project)
            try:
                if not is_wanted():
                    raise DeadlinePassed("The deadline passed before the request was read.")
                return asked_of(*await self._ask(Job(most=most, described=described), body))
            finally:
                self._next()
        finally:
            share.give(size)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.end()
            self._process = None

    async def _turn(self, project: str) -> None:
        if self._busy:
            turn = asyncio.get_running_loop().create_future()
            self._queue.setdefault(project, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # its turn had come
                    self._next()
                raise
        self._busy = True

    def _next(self) -> None:
        while self._queue:
            project = next(iter(self._queue))
            queue = self._queue.pop(project)
            turn = queue.popleft()
            if queue:
                self._queue[project] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False

    async def _ask(self, job: Job, body: Body) -> tuple[Read, bytes]:
        if self._timer is not None:
            self._timer.cancel()
        process, self._process = self._process, None
        if process is None or process.has_ended():
            process = await _Process.start()
        try:
            async with asyncio.timeout(_READS_WITHIN):
                answer = await process.ask(job, body)
        except (OSError, EOFError, TimeoutError):
            process.end()
            raise Unavailable("the request could not be read; try again, or send tensors in binary", delay=1) from None
        except BaseException:
            process.end()
            raise
        if answer[0].last:
            process.end()
            return answer
        self._process = process
        self._timer = asyncio.get_running_loop().call_later(self._idle, self.close)
        return answer


class _Process:
    def __init__(self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process, self._reader, self._writer = process, reader, writer

    @classmethod
    async def start(cls) -> "_Process":
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "falaj.serving.plane.rest.reading", str(theirs.fileno())]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))  # noqa: ASYNC220 # nosec B603
        finally:
            theirs.close()
        return cls(process, *await asyncio.open_unix_connection(sock=ours))

    async def ask(self, job: Job, body: Body) -> tuple[Read, bytes]:
        head = _encode(job)
        self._writer.write(LENGTHS.pack(len(head), len(body)) + head)
        self._writer.write(body)
        described, behind = LENGTHS.unpack(await self._reader.readexactly(LENGTHS.size))
        return _decode(await self._reader.readexactly(described)), await self._reader.readexactly(behind)

    def has_ended(self) -> bool:
        return self._reader.at_eof() or self._process.poll() is not None

    def end(self) -> None:
        """It is idle, or nobody wants what it does."""
        self._writer.close()
        self._process.kill()
        Thread(target=self._process.wait, daemon=True).start()  # its memory takes a while to be given back
