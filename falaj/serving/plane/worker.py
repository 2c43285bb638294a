"""A worker process: one loop that listens, asks the core and answers. Born by the supervisor, ends with it."""

import asyncio
import ctypes
import gc
import importlib
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from falaj import __version__
from falaj.base.clock import SystemClock
from falaj.base.errors import FalajError, Unavailable
from falaj.keys.sealing import derive
from falaj.runtimes.hosts import kind_of, this_host
from falaj.runtimes.loading import load
from falaj.runtimes.tuning import tune
from falaj.serving.plane.callbacks import SignedCallbacks
from falaj.serving.plane.certificates import Certificate
from falaj.serving.plane.channel import (
    Adopt,
    Adopted,
    AllSet,
    Channel,
    Did,
    Drain,
    Ease,
    Figures,
    Order,
    SetLoaded,
    Setup,
    WantsFigures,
    WantsSet,
    WasSet,
)
from falaj.serving.plane.core.batches import SWITCH_AFTER
from falaj.serving.plane.core.core import ServingCore
from falaj.serving.plane.core.reading import Room
from falaj.serving.plane.core.taps import Tap
from falaj.serving.plane.grpc.face import GrpcFace
from falaj.serving.plane.grpc.limits import Limits as GrpcLimits
from falaj.serving.plane.lookups.opening import opening_of
from falaj.serving.plane.lookups.views import Views
from falaj.serving.plane.marks import BEAT, Mark, Marks
from falaj.serving.plane.models import SealedModels
from falaj.serving.plane.rest.apart import Apart
from falaj.serving.plane.rest.deferring import Deferrals
from falaj.serving.plane.rest.edge import Edge
from falaj.serving.plane.rest.limits import Limits as RestLimits
from falaj.serving.plane.rest.routes import Routes
from falaj.serving.plane.rest.stores import FolderStore
from falaj.serving.states import decode

log = logging.getLogger(__name__)
_BEATS: Final = 0.5
_TELLS: Final = 1.0
_DRAINS_WITHIN: Final = 20.0
_GREETS_WITHIN: Final = 1.0  # who is in the middle of TLS's first words, before the rest is drained
_GREETS_SLOWLY: Final = 10.0  # seconds that TLS's first words may take
_MOST_GREETING: Final = 512  # at once: each takes 50 KiB, and nobody knows yet who they are
_ACCEPTS_AGAIN: Final = 0.1
_YIELDS: Final = 0.3  # seconds in which those who connect anew find a worker that has less to do
_SWITCHES: Final = 0.0005  # seconds that a tap may hold up the loop, before it has to hand over
_GPU: Final = Path("/dev/nvidiactl")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as GNU's C library numbers them
_OBJECTIVE: Final = 0.05  # for tuning: batches that take longer are not tried


def main() -> None:
    channel, listener, marks, place = (int(argument) for argument in sys.argv[1:5])
    # A Ctrl-C reaches the whole group; the supervisor says when to end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # the supervisor that bore it stands back
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    _go_first()
    _keep_pages()
    if _GPU.exists():
        sys.setswitchinterval(SWITCH_AFTER)
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


def _keep_pages() -> None:
    """Arrays of some hundred kilobytes come and go with each batch. Their memory is kept for the next ones: to give it back to
    the kernel and to get it again, page by page, takes longer than most of what is done with them."""
    with suppress(AttributeError, OSError):  # as another C library than GNU's has it
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)
        allocator.mallopt(_TRIM_THRESHOLD, 64 * 1024 * 1024)


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
            room=Room(
                memory_bytes=setup.memory_bytes,
                threads=setup.threads,
                cores=setup.cores,
                gpu=_GPU.exists(),
                host=kind_of(this_host()),
            ),
            mark=mark,
            taps=_taps(setup),
            everywhere=self._everywhere,
            views=Views(opening_of(setup.features_folder, setup.features_redis)),
        )
        answers = FolderStore(Path(setup.answers), derive(setup.key, b"answers"), clock)
        callbacks = SignedCallbacks(self._core, clock)
        self._deferrals = Deferrals(answers, self._core.caller_of, clock, callbacks=callbacks)
        limits = RestLimits(body=setup.body_bytes)
        self._grpc = GrpcFace(self._core, version=__version__, limits=GrpcLimits(message=setup.body_bytes))
        self._apart = Apart()
        routes = Routes(
            self._core,
            version=__version__,
            limits=limits,
            metrics=self._metrics,
            deferrals=self._deferrals,
            apart=self._apart,
        )
        self._rest = Edge(routes, limits=limits, h2=self._grpc, report=_report)
        self._tls = Certificate(setup.certificate, setup.private_key) if setup.certificate else None
        self._accepting = False
        self._draining = False
        self._connecting: dict[asyncio.Task[object], None] = {}  # the oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._figures: deque[asyncio.Future[bytes]] = deque()
        self._wishes: dict[int, asyncio.Future[str]] = {}
        self._wished = 0

    async def run(self) -> None:
        self._beat()
        leaving = True  # where nobody says anything any more
        telling = asyncio.create_task(self._tell())
        while (order := await self._channel.read()) is not None:
            if isinstance(order, Adopt):
                self._begin(self._adopt(order))
            elif isinstance(order, SetLoaded):
                self._begin(self._set_loaded(order))
            elif isinstance(order, AllSet):
                self._fulfil(order.number, order.problem)
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

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Those that begin one after the other have their first step in that order, too."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, order: Adopt) -> None:
        state = decode(order.body)
        problems = await self._core.adopt(state, self._models.open, order.broken, order.unloaded)
        self._channel.send(Adopted(serial=state.serial, problems=problems))
        if not self._accepting:
            self._accepting = True
            gc.freeze()  # what is there now stays
            self._listen()

    async def _set_loaded(self, order: SetLoaded) -> None:
        problem = ""
        try:
            await self._core.set_loaded(order.endpoint, order.loaded)
        except FalajError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - somebody waits for an answer
            _report(error)
            problem = f"A worker failed in a way nobody expected: {type(error).__name__}."
        self._channel.send(WasSet(number=order.number, problem=problem))

    async def _everywhere(self, endpoint: str, loaded: bool) -> None:
        """How long it may take is the supervisor's affair."""
        self._wished += 1
        number, answer = self._wished, self._loop.create_future()
        self._wishes[number] = answer
        self._channel.send(WantsSet(number=number, endpoint=endpoint, loaded=loaded))
        try:
            problem = await answer
        finally:
            del self._wishes[number]
        if problem:
            raise Unavailable(problem, delay=5.0)

    def _fulfil(self, number: int, problem: str) -> None:
        wish = self._wishes.get(number)
        if wish is not None and not wish.done():  # who asked may have hung up
            wish.set_result(problem)

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
        if self._tls is None:
            connecting = self._loop.connect_accepted_socket(self._rest, connection)
        else:
            connecting = self._loop.connect_accepted_socket(
                self._rest, connection, ssl=self._tls.context, ssl_handshake_timeout=_GREETS_SLOWLY
            )
        if len(self._connecting) >= _MOST_GREETING and not self._draining:
            oldest = next(iter(self._connecting))  # who has taken the longest is the least likely to come to an end
            del self._connecting[oldest]
            oldest.cancel()
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._connecting[task] = None
        task.add_done_callback(self._connected)
        return True

    def _connected(self, task: "asyncio.Task[object]") -> None:
        """A handshake that failed is the client's affair."""
        self._connecting.pop(task, None)
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
        for number in self._wishes:
            self._fulfil(number, "The worker that was asked is leaving; ask again.")
        if self._connecting:
            await asyncio.wait(self._connecting, timeout=_GREETS_WITHIN)
        self._grpc.drain()
        await asyncio.gather(
            self._rest.drain(_DRAINS_WITHIN, leaving=leaving),
            self._grpc.drained(_DRAINS_WITHIN),
            self._deferrals.drain(_DRAINS_WITHIN),
            self._core.drain(_DRAINS_WITHIN, leaving=leaving),
        )
        self._apart.close()
        await self._core.end_taps()
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
        self._channel.send(
            Did(
                revisions=told.revisions,
                calls=told.calls,
                problems=told.problems,
                connections=self._rest.connections + self._grpc.connections,
                under_way=told.under_way,
                waiting=told.waiting,
                taps=told.taps,
                rungs=told.rungs,
                watched=told.watched,
            )
        )

    async def _metrics(self, token: str) -> bytes:
        """Of those endpoints of the project that the token is for; of the host alone without a token."""
        project, only = self._core.seen_by(token) if token else ("", frozenset())
        self._say()
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._figures.append(answer)
        self._channel.send(WantsFigures(project=project, only=only))
        async with asyncio.timeout(5):
            return await answer


def _taps(setup: Setup) -> list[Tap]:
    """Made by names, for they may belong to rooms that nothing here may know of. One that cannot be made is done without."""
    made: list[Tap] = []
    for name in setup.taps:
        module, _, maker = name.partition(":")
        try:
            made.append(getattr(importlib.import_module(module), maker)(Path(setup.watched)))
        except Exception:
            log.exception("the tap %s cannot be made, and nothing is shown to it", name)
    if made:
        sys.setswitchinterval(min(_SWITCHES, sys.getswitchinterval()))
    return made


def _report(error: Exception) -> None:
    log.error("a request failed in a way nobody expected", exc_info=error)


if __name__ == "__main__":
    main()
