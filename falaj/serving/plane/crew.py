"""The workers of one host: born, watched, blamed, replaced, let go. Who listens is inherited: nothing queues for the dead."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Final

from falaj.serving.plane.channel import (
    Adopt,
    Adopted,
    AllSet,
    Channel,
    Did,
    Drain,
    Ease,
    Figures,
    SetLoaded,
    Setup,
    WantsFigures,
    WantsSet,
    WasSet,
    Word,
)
from falaj.serving.plane.marks import BEAT, INLINE, SINCE, THREAD, THREADS, Mark, Marks

log = logging.getLogger(__name__)
MOST_WORKERS: Final = 256
THREAD_HANGS_AFTER: Final = 120.0  # seconds in one run of a slow model
DRAINS_WITHIN: Final = 25.0
SERVES_WITHIN: Final = 120.0  # a fresh worker, before the one it replaces is kept after all
SETS_WITHIN: Final = 60.0  # all workers load or unload a model, before who asked for it is told that it goes on
SECONDS_OF_CALLS: Final = 5
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 5.0


class Worker:
    """One process. `serial` is the state it serves by, None until it serves by any."""

    def __init__(self, place: int, mark: Mark, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.place, self.mark, self.process, self.channel = place, mark, process, channel
        self.born = time.monotonic()
        self.serial: int | None = None
        self.problems: dict[str, str] = {}
        self.rungs: dict[str, int] = {}  # by revision with a ladder, the place at which it answers
        self.asked: dict[int, asyncio.Future[str]] = {}  # what it was told to load or unload, by number, until it has
        self.under_way: deque[int] = deque(maxlen=SECONDS_OF_CALLS)  # calls in hand, as told once a second
        self.waiting: dict[str, int] = {}  # rows that wait or are at work, by revision, as told last
        self.draining = False
        self.hung = False
        self.loop_hung = False

    def cpu_seconds(self) -> float:
        try:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def calls(self) -> float:
        """Under way, on average of late."""
        return sum(self.under_way) / len(self.under_way) if self.under_way else 0.0

    def memory_bytes(self) -> int:
        try:
            with open(f"/proc/{self.process.pid}/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0


class Crew:
    """Keeps `wanted` workers alive. Everything runs on one loop.

    A worker whose loop did not come round for `hangs_after` seconds is ended. `on_broken` is told which revision was running
    when a worker died or hung, if any; `on_did` what a worker did; `figures` is asked for the text that a worker's metrics
    page shows about a project; `on_wish` has an endpoint loaded or unloaded that a worker was asked to, and says why not.
    """

    def __init__(
        self,
        listener: socket.socket,
        setup: Setup,
        *,
        hangs_after: float,
        numbers: Callable[[], Mapping[int, str]],
        on_broken: Callable[[str, str], None],
        on_did: Callable[[Did], None],
        on_adopted: Callable[[], None],
        figures: Callable[[str, frozenset[str]], str],
        on_wish: Callable[[str, bool], Awaitable[str]],
    ) -> None:
        self._listener, self._setup, self._hangs_after = listener, setup, hangs_after
        self._numbers, self._on_broken, self._on_did, self._on_adopted = numbers, on_broken, on_did, on_adopted
        self._figures, self._on_wish = figures, on_wish
        self._wishes = 0
        self._marks = Marks.make(MOST_WORKERS)
        self._adopt: Adopt | None = None
        self._ending = False
        self._births = asyncio.Lock()  # one at a time: who is being born has no place in `workers` yet
        self._retry = _FIRST_RETRY
        self._tasks: set[asyncio.Task[None]] = set()
        self.workers: dict[int, Worker] = {}  # by place
        self.wanted = 0

    async def grow(self, wanted: int) -> None:
        """Have so many workers; those too many finish what they have."""
        self.wanted = wanted
        alive = self.present()
        for worker in sorted(alive, key=lambda one: -one.place)[: max(0, len(alive) - wanted)]:
            self._let_go(worker)
        await self._fill()

    def present(self) -> list[Worker]:
        """Without those that only finish what they have."""
        return [worker for worker in self.workers.values() if not worker.draining]

    def adopt(self, order: Adopt) -> None:
        self.adopt_later(order)
        for worker in self.workers.values():
            worker.channel.send(order)

    def adopt_later(self, order: Adopt) -> None:
        """By those who are born from now on; the others know it in another way."""
        self._adopt = order

    async def set_loaded(self, endpoint: str, loaded: bool) -> str:
        """Says why not everybody did so. One that dies meanwhile is not waited for: who follows it knows from the start."""
        self._wishes += 1
        order = SetLoaded(number=self._wishes, endpoint=endpoint, loaded=loaded)
        waiting: list[asyncio.Future[str]] = []
        for worker in self.workers.values():
            worker.channel.send(order)
            if worker.serial is not None and not worker.draining:
                worker.asked[order.number] = asyncio.get_running_loop().create_future()
                waiting.append(worker.asked[order.number])
        if not waiting:
            return ""
        done, late = await asyncio.wait(waiting, timeout=SETS_WITHIN)
        if late:
            few, what = f"{len(late)} of {len(waiting)} workers", "loaded" if loaded else "unloaded"
            return f"{few} have not {what} it within {SETS_WITHIN:.0f} seconds, and go on with it."
        return next((one.result() for one in done if one.result()), "")

    def served(self) -> int:
        """The state that every worker which takes calls serves by; 0 where none does. One that was just born takes none."""
        return min((worker.serial for worker in self.present() if worker.serial is not None), default=0)

    def problems(self) -> dict[str, str]:
        return {revision: why for worker in self.workers.values() for revision, why in worker.problems.items()}

    def workers_at(self, revision: str, place: int) -> int:
        """How many answer by this rung of a revision's ladder."""
        return sum(worker.rungs.get(revision) == place for worker in self.workers.values())

    def calls(self) -> int:
        """In hand, as was told last."""
        return sum(worker.under_way[-1] for worker in self.workers.values() if worker.under_way)

    def rows_waiting(self) -> Counter[str]:
        """By revision: rows that wait or are at work, as was told last."""
        return sum((Counter(worker.waiting) for worker in self.workers.values()), Counter())

    async def replace(self, worker: Worker) -> None:
        """The old one may finish once a fresh one serves; until then, and where none comes to serve, it stays."""
        async with self._births:
            fresh = await self._bear()
        deadline = time.monotonic() + SERVES_WITHIN
        while fresh.serial is None and fresh in self.present() and time.monotonic() < deadline:  # noqa: ASYNC110 - rare
            await asyncio.sleep(0.05)
        self._let_go(worker if fresh.serial is not None else fresh)

    async def watch(self) -> None:
        """End those that hang."""
        while True:
            await asyncio.sleep(0.5)
            now = time.monotonic_ns()
            for worker in list(self.workers.values()):
                beat, since = worker.mark.numbers[BEAT], worker.mark.numbers[SINCE]
                hangs = beat and now - beat > self._hangs_after * 1e9
                if hangs or (since and now - since > THREAD_HANGS_AFTER * 1e9):
                    worker.hung, worker.loop_hung = True, bool(hangs)
                    log.error("worker %d hangs and is ended", worker.process.pid)
                    with contextlib.suppress(ProcessLookupError):
                        worker.process.kill()

    async def end(self) -> None:
        """Let everybody finish; who does not within the time is ended."""
        self._ending = True
        for worker in list(self.workers.values()):
            self._let_go(worker)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAINS_WITHIN)
        for worker in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _let_go(self, worker: Worker) -> None:
        worker.draining = True
        worker.channel.send(Drain(leaving=self._ending))

    async def _fill(self) -> None:
        """Bring forth those that are wanting."""
        async with self._births:
            while not self._ending and len(self.present()) < self.wanted:
                await self._bear()

    async def _bear(self) -> Worker:
        place = next(place for place in range(MOST_WORKERS) if place not in self.workers)
        ours, theirs = socket.socketpair()
        mark = self._marks.place(place)
        mark.clear()
        descriptors = (theirs.fileno(), self._listener.fileno(), self._marks.descriptor)
        arguments = [str(number) for number in (*descriptors, place)]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "falaj.serving.plane.worker",
                *arguments,
                pass_fds=descriptors,
                stdin=asyncio.subprocess.DEVNULL,
            )
        finally:
            theirs.close()
        worker = Worker(place, mark, process, await Channel.over(ours, Word))
        self.workers[place] = worker
        worker.channel.send(self._setup)
        if self._adopt is not None:
            worker.channel.send(self._adopt)
        self._begin(self._mind(worker))
        return worker

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _mind(self, worker: Worker) -> None:
        while (word := await worker.channel.read()) is not None:
            if isinstance(word, Adopted):
                if worker.serial is None:
                    self._ease_the_others(worker)
                worker.serial, worker.problems = max(worker.serial or 0, word.serial), word.problems
                self._on_adopted()
            elif isinstance(word, Did):
                worker.problems, worker.rungs = word.problems, word.rungs
                worker.under_way.append(word.under_way)
                worker.waiting = word.waiting
                self._on_did(word)
            elif isinstance(word, WantsFigures):
                worker.channel.send(Figures(self._figures(word.project, word.only)))
            elif isinstance(word, WantsSet):
                self._begin(self._grant(worker, word))
            elif isinstance(word, WasSet) and word.number in worker.asked:
                worker.asked.pop(word.number).set_result(word.problem)
        for asked in worker.asked.values():
            asked.set_result("")
        code = await worker.process.wait()
        worker.channel.close()
        del self.workers[worker.place]
        if worker.draining and code == 0:
            return
        self._blame(worker, code)
        await self._again(worker)

    async def _grant(self, worker: Worker, wish: WantsSet) -> None:
        worker.channel.send(AllSet(number=wish.number, problem=await self._on_wish(wish.endpoint, wish.loaded)))

    def _ease_the_others(self, newcomer: Worker) -> None:
        """Clients hold on to their connections: without this a worker more would help nobody who is connected already."""
        others = [one for one in self.present() if one is not newcomer and one.serial is not None]
        for one in others:
            one.channel.send(Ease(share=1 / (len(others) + 1)))

    def _blame(self, worker: Worker, code: int) -> None:
        """Who hangs is known. Where several ran at once, on the loop and in threads, a crash is of any of them: nobody is
        blamed, for else one could have another's revision put away. A fresh worker takes no calls while it loads, so who
        crashes in a load is found then."""
        inline, thread, threads = (worker.mark.numbers[index] for index in (INLINE, THREAD, THREADS))
        if worker.hung:
            running = inline or thread if worker.loop_hung else thread
        elif bool(inline) + threads > 1:
            running = 0
        else:
            running = inline or thread
        how = "hung" if worker.hung else f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        revision = self._numbers().get(running)
        log.error("worker %d %s%s", worker.process.pid, how, f" while it ran revision {revision}" if revision else "")
        self._on_broken(revision or "", f"A worker {how} while it ran this model." if revision else f"A worker {how}.")

    async def _again(self, worker: Worker) -> None:
        """At once, but not in a circle: those that die young are followed more and more slowly."""
        if time.monotonic() - worker.born > _LONGEST_RETRY:
            self._retry = _FIRST_RETRY
        while not self._ending and len(self.present()) < self.wanted:
            await asyncio.sleep(self._retry)
            self._retry = min(self._retry * 2, _LONGEST_RETRY)
            try:
                await self._fill()
            except OSError as error:
                log.error("no worker could be started, which is tried again: %s", error)
