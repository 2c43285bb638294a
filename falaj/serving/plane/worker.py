"""A worker process: one loop that listens, asks the core and answers. Born by the supervisor, ends with it."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from falaj import __version__
from falaj.base.clock import SystemClock
from falaj.keys.sealing import derive
from falaj.runtimes.loading import load
from falaj.runtimes.tuning import tune
from falaj.serving.plane.callbacks import SignedCallbacks
from falaj.serving.plane.certificates import Certificate
from falaj.serving.plane.channel import Adopt, Adopted, Channel, Did, Drain, Ease, Figures, Order, Setup, WantsFigures
from falaj.serving.plane.core.core import ServingCore
from falaj.serving.plane.core.fleet import Room
from falaj.serving.plane.grpc.face import GrpcFace
from falaj.serving.plane.grpc.limits import Limits as GrpcLimits
from falaj.serving.plane.marks import BEAT, Mark, Marks
from falaj.serving.plane.models import SealedModels
from falaj.serving.plane.rest.deferring import Deferrals
from falaj.serving.plane.rest.edge import Edge
from falaj.serving.plane.rest.limits import Limits as RestLimits
from falaj.serving.plane.rest.routes import Routes
from falaj.serving.plane.rest.stores import FolderStore
from falaj.serving.states import State, decode

log = logging.getLogger(__name__)
_BEATS: Final = 0.5
_TELLS: Final = 1.0
_DRAINS_WITHIN: Final = 20.0
_GREETS_WITHIN: Final = 1.0  # who is in the middle of TLS's first words, before the rest is drained
_ACCEPTS_AGAIN: Final = 0.1
_YIELDS: Final = 0.3  # seconds in which those who connect anew find a worker that has less to do
_GPU: Final = Path("/dev/nvidiactl")
_OBJECTIVE: Final = 0.05  # for tuning: batches that take longer are not tried


def main() -> None:
    channel, listener, marks, place = (int(argument) for argument in sys.argv[1:5])
    # A Ctrl-C reaches the whole group; the supervisor says when to end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # the supervisor that bore it stands back
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    _go_first()
    uvloop.run(_run(socket.socket(fileno=channel), socket.socket(fileno=listener), Marks(marks).place(place)))


def _go_first() -> None:
    """A model may ask for any memory there is. More than the machine has fails in the model; and where memory runs short
    nevertheless, it is a worker that the kernel ends, which is replaced, and not the supervisor or somebody else."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    if not _GPU.exists():  # whose driver takes addresses by the terabyte
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        bound = machine if most == resource.RLIM_INFINITY else min(machine, most)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


async def _run(end: socket.socket, listener: socket.socket, mark: Mark) -> None:
    channel = await Channel.over(end, Order)
    setup = await channel.read()
    if isinstance(setup, Setup):
        await Worker(channel, setup, listener, mark).run()


class Worker:
    """Listens once it has a state to serve by. Ends when it is told to, or when the supervisor is gone."""

    def __init__(self, channel: Channel, setup: Setup, listener: socket.socket, mark: Mark) -> None:
        self._channel, self._listener, self._mark = channel, listener, mark
        self._loop = asyncio.get_running_loop()
        clock = SystemClock()
        self._models = SealedModels(Path(setup.models), setup.key)
        self._core = ServingCore(
            clock=clock,
            load=lambda files, placement: load(files, replace(placement, python=setup.python)),
            tune=partial(tune, objective_s=_OBJECTIVE),
            room=Room(memory_bytes=setup.memory_bytes, threads=setup.threads or 1, gpu=_GPU.exists()),
            mark=mark,
        )
        answers = FolderStore(Path(setup.answers), derive(setup.key, b"answers"), clock)
        callbacks = SignedCallbacks(self._core, clock)
        self._deferrals = Deferrals(answers, self._core.caller_of, clock, callbacks=callbacks)
        limits = RestLimits(body=setup.body_bytes)
        self._grpc = GrpcFace(self._core, version=__version__, limits=GrpcLimits(message=setup.body_bytes))
        routes = Routes(self._core, version=__version__, limits=limits, metrics=self._metrics, deferrals=self._deferrals)
        self._rest = Edge(routes, limits=limits, h2=self._grpc, report=_report)
        self._tls = Certificate(setup.certificate, setup.private_key) if setup.certificate else None
        self._accepting = False
        self._draining = False
        self._connecting: set[asyncio.Task[object]] = set()
        self._adoptions: set[asyncio.Task[None]] = set()
        self._figures: deque[asyncio.Future[bytes]] = deque()

    async def run(self) -> None:
        self._beat()
        leaving = True  # where nobody says anything any more
        telling = asyncio.create_task(self._tell())
        while (order := await self._channel.read()) is not None:
            if isinstance(order, Adopt):
                task = asyncio.create_task(self._adopt(decode(order.body), order.broken))
                self._adoptions.add(task)
                task.add_done_callback(self._adoptions.discard)
            elif isinstance(order, Figures):
                waiting = self._figures.popleft()  # each gets its own: the next one's may be of another project
                if not waiting.done():
                    waiting.set_result(order.text.encode())
            elif isinstance(order, Ease):
                self._pause_listening(_YIELDS)
                self._rest.ease(order.share)
                self._grpc.ease(order.share)
            elif isinstance(order, Drain):
                leaving = order.leaving
                break
        telling.cancel()
        await self._drain(leaving=leaving)

    async def _adopt(self, state: State, broken: tuple[str, ...]) -> None:
        problems = await self._core.adopt(state, self._models.open, broken)
        self._channel.send(Adopted(serial=state.serial, problems=problems))
        if not self._accepting:
            self._accepting = True
            gc.freeze()  # what is there now stays
            self._listen()

    # Connections

    def _listen(self) -> None:
        if not self._draining:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _pause_listening(self, seconds: float) -> None:
        if self._accepting:
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(seconds, self._listen)

    def _accept(self) -> bool:
        """One at a time: another worker that has less to do is quicker to take the next."""
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return False
        except OSError as error:
            log.error("no connection can be taken for now: %s", error)  # too many are open: looking again at once is no use
            self._pause_listening(_ACCEPTS_AGAIN)
            return False
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = self._tls.context if self._tls is not None else None
        connecting = self._loop.connect_accepted_socket(self._rest, connection, ssl=tls)
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._connecting.add(task)
        task.add_done_callback(self._connected)
        return True

    def _connected(self, task: "asyncio.Task[object]") -> None:
        """A handshake that failed is the client's affair."""
        self._connecting.discard(task)
        if not task.cancelled():
            task.exception()

    async def _drain(self, *, leaving: bool) -> None:
        """Whoever has connected is answered. The socket is closed for those who come later: were it left open here, they would
        wait for somebody who is leaving, and nobody else could have the port."""
        self._draining = True
        if self._accepting:
            self._loop.remove_reader(self._listener.fileno())
            while self._accept():
                pass
        self._listener.close()
        if self._connecting:
            await asyncio.wait(self._connecting, timeout=_GREETS_WITHIN)
        self._grpc.drain()
        await asyncio.gather(
            self._rest.drain(_DRAINS_WITHIN, leaving=leaving),
            self._grpc.drained(_DRAINS_WITHIN),
            self._deferrals.drain(_DRAINS_WITHIN),
            self._core.drain(_DRAINS_WITHIN, leaving=leaving),
        )
        self._say()
        await self._core.close()
        self._channel.close()

    # Words to the supervisor

    def _beat(self) -> None:
        self._mark.numbers[BEAT] = time.monotonic_ns()
        self._loop.call_later(_BEATS, self._beat)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELLS)
            try:
                self._say()
            except Exception as error:  # noqa: BLE001 - a worker that falls silent for ever looks idle, and is not
                _report(error)
            if self._tls is not None:
                self._tls.look_again()

    def _say(self) -> None:
        told = self._core.drain_report()
        connections = self._rest.connections + self._grpc.connections
        self._channel.send(Did(revisions=told.revisions, calls=told.calls, problems=told.problems, connections=connections))

    async def _metrics(self, token: str) -> bytes:
        """Of the caller's project; of the host alone without a token."""
        project = self._core.project_of(token) if token else ""
        self._say()
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._figures.append(answer)
        self._channel.send(WantsFigures(project=project))
        return await asyncio.wait_for(answer, 5)


def _report(error: Exception) -> None:
    log.error("a request failed in a way nobody expected", exc_info=error)


if __name__ == "__main__":
    main()
