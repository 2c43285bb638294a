"""The plane of one host as a whole: follows the control plane as long as there is one, keeps workers, says how it goes."""

import asyncio
import fcntl
import json
import logging
import os
import signal
import socket
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from falaj import __version__
from falaj.base.clock import Clock
from falaj.base.errors import Conflict, FalajError, Invalid, TooLarge
from falaj.base.files import write_durably
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.planes import Report, RevisionReport, RungReport
from falaj.serving.operations.words import ORIGINAL
from falaj.serving.plane.cards import Cards
from falaj.serving.plane.certificates import shown_certificate
from falaj.serving.plane.channel import Adopt, Did, Setup
from falaj.serving.plane.crew import Crew
from falaj.serving.plane.figures import Figures
from falaj.serving.plane.following import Follower
from falaj.serving.plane.joining import Control, Join, read_join
from falaj.serving.plane.keeping import StateFile
from falaj.serving.plane.marks import number_of
from falaj.serving.plane.models import SealedModels
from falaj.serving.plane.places import PlaneHome
from falaj.serving.plane.scaling import Load, is_calm, wanted_workers
from falaj.serving.plane.windows import Windows
from falaj.serving.states import Endpoint, Revision

log = logging.getLogger(__name__)
STRIKES: Final = 3  # so many broken workers within `WITHIN` seconds, and a revision is quarantined
WITHIN: Final = 600.0
_LOOKS: Final = 0.1
_ASKS: Final = 0.5
_ASKS_THE_NEAR: Final = 5.0
_ASKS_THE_DEAD: Final = 2.0
_REPORTS: Final = 5.0
_MANY_CALLS: Final = 1000  # so many logged calls do not wait for the next report
_DECIDES: Final = 5.0
_FOR_MODELS: Final = 2 / 3  # of a worker's memory: the rest is for requests, answers and what is being loaded
_SETTLED: Final = 60.0  # seconds: a worker that takes more memory sooner than that has large models, and no leak
_MOST_REMARKS: Final = 20
_STUMBLES: Final = 1.0  # seconds before work that failed in a way nobody expected is taken up again


@value
class PlaneSettings:
    """`workers` between `least_workers` and `most_workers`, by load. `url` is how callers reach this host. `calls_per_worker`
    are under way before there should be another worker."""

    url: str = ""
    least_workers: int = 1
    most_workers: int = 0  # 0: as many as this process may use cores
    calls_per_worker: int = 100
    certificate: str = ""
    private_key: str = ""
    body_bytes: int = 64 * 1024 * 1024
    memory_bytes: int = 0  # of one worker, before it is replaced or models are put out; 0: half of the machine's, shared
    threads: int = 0  # of one model; 0: as many as pay, of the cores that the other workers leave
    hang_seconds: float = 10.0
    python: str = ""  # runs models by their own code, in a sandbox; empty: none does
    taps: tuple[str, ...] = ()  # who watches predictions in every worker, as `module:maker`
    features_folder: str = ""  # the online store in a folder of this host, or
    features_redis: str = ""  # the server that has it; neither: features cannot be looked up here


@contextmanager
def held(home: PlaneHome) -> Iterator[None]:
    """One plane at a time in one place; the lock goes with the process, however it ends."""
    with open(home.lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"A plane runs on {home.path} already.") from None
        home.running.unlink(missing_ok=True)  # of one that was killed: its process id may be anybody's by now
        yield


def is_held(home: PlaneHome) -> bool:
    if not home.lock.exists():
        return False
    with open(home.lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Supervisor:
    """Runs until SIGTERM. `control` None serves for ever by what lies here."""

    def __init__(
        self,
        home: PlaneHome,
        join: Join,
        settings: PlaneSettings,
        control: Control | None,
        listener: socket.socket,
        clock: Clock,
    ) -> None:
        self._home, self._settings, self._control, self._clock = home, settings, control, clock
        self._listener = listener
        key = home.key()
        models = SealedModels(home.models, key)
        kept = StateFile(home.state, join.trusted(), key)
        # The zone as the way in says now: a home may be moved to another while its plane goes on.
        self._follower = Follower(control, kept, models, join.trusted(), lambda: read_join(home.join).zone)
        self._figures = Figures()
        self._windows = Windows()
        self._broken: dict[str, str] = _read_broken(home)
        self._unloaded: dict[str, list[int]] = _read_unloaded(home)  # endpoints, with the revisions that had a part then
        self._loading: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._strikes: dict[str, deque[float]] = defaultdict(deque)
        self._well: set[str] = set()  # revisions that answer, as of the last state that every worker went over to
        self._remarks: deque[tuple[float, str]] = deque(maxlen=_MOST_REMARKS)  # what happened to workers, and when
        cores = len(os.sched_getaffinity(0))
        self._most = settings.most_workers or cores
        memory = settings.memory_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 // self._most
        self._crew = Crew(
            listener,
            Setup(
                key=key,
                models=str(home.models),
                answers=str(home.answers),
                certificate=settings.certificate,
                private_key=settings.private_key,
                body_bytes=settings.body_bytes,
                memory_bytes=int(memory * _FOR_MODELS),
                threads=settings.threads,
                cores=max(1, cores // self._most),
                python=settings.python,
                taps=settings.taps,
                watched=str(home.watched),
                features_folder=settings.features_folder,
                features_redis=settings.features_redis,
            ),
            hangs_after=settings.hang_seconds,
            numbers=self._numbers,
            on_broken=self._blame,
            on_did=self._did,
            on_adopted=self._adopted,
            figures=self._text,
            on_wish=self._set_loaded,
        )
        self._cards = Cards()
        self._busy = 0.0  # of a core, by each worker on average, when it was last looked at
        self._memory = memory
        self._url = settings.url or _url(listener, near=join.url, tls=bool(settings.certificate))
        self._news = asyncio.Event()
        self._run = new_id(clock.now())
        self._number = 0
        self._pending: Report | None = None
        self._told = time.monotonic()
        self._silent = ""  # why the control plane does not answer, while it does not

    async def run(self, ready: Callable[[str], None]) -> None:
        ending = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
        if self._follower.recall():
            self._adopt()
        await self._crew.grow(max(1, self._settings.least_workers))
        told = {"pid": os.getpid(), "url": self._url, "version": __version__}
        write_durably(self._home.running, json.dumps(told).encode())
        ready(self._url)
        works = (self._follow, self._report, self._decide, self._crew.watch)
        tasks = [asyncio.create_task(_steadily(work)) for work in works]
        try:
            await ending.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._listener.close()  # workers close theirs: whoever connects now is refused, not left waiting for nobody
            await self._crew.end()
            await self._tell_all()
            self._cards.close()
            self._home.running.unlink(missing_ok=True)

    # Following

    async def _follow(self) -> None:
        while self._control is not None:
            try:
                if await asyncio.to_thread(self._follower.step):
                    self._adopt()
                self._silent = ""
            except FalajError as error:
                if str(error) != self._silent:
                    log.warning("the control plane: %s", error)
                self._silent = str(error)
            await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        """Asking costs both sides a few milliseconds, on whose core predictions may run; looking at a file costs nothing."""
        seen = self._told_of()
        patience = _ASKS_THE_DEAD if self._silent else _ASKS_THE_NEAR if seen else _ASKS
        for _ in range(int(patience / _LOOKS)):
            await asyncio.sleep(_LOOKS)
            if self._told_of() != seen:
                return

    def _told_of(self) -> int:
        """When a control plane on this host last told of a new state; 0 where none does."""
        try:
            return self._home.news.stat().st_mtime_ns
        except OSError:
            return 0

    def _adopt(self) -> None:
        here = {revision.id for revision in self._revisions()}
        self._broken = {id: why for id, why in self._broken.items() if id in here}
        parts = {endpoint.id: _parts(endpoint) for endpoint in self._endpoints()}
        self._keep_unloaded({id: then for id, then in self._unloaded.items() if parts.get(id) == then})
        self._crew.adopt(self._order())

    def _order(self) -> Adopt:
        broken = (*self._broken, *self._follower.problems)
        return Adopt(body=self._follower.body, broken=broken, unloaded=tuple(self._unloaded))

    def _adopted(self) -> None:
        self._news.set()

    def _revisions(self) -> list[Revision]:
        return [revision for endpoint in self._endpoints() for revision in endpoint.revisions]

    def _endpoints(self) -> tuple[Endpoint, ...]:
        return self._follower.state.endpoints if self._follower.state else ()

    def _numbers(self) -> dict[int, str]:
        return {number_of(revision.id): revision.id for revision in self._revisions()}

    # Unloaded models

    async def _set_loaded(self, endpoint: str, loaded: bool) -> str:
        """On every worker, also on those that are born later; says why not. An unload ends with a load, or when other
        revisions of the endpoint get a part: who deploys wants answers."""
        async with self._loading[endpoint]:  # all workers hear of two wishes in the same order
            found = next((one for one in self._endpoints() if one.id == endpoint), None)
            if found is None:
                return "The endpoint is not there any more."
            others = {id: parts for id, parts in self._unloaded.items() if id != endpoint}
            self._keep_unloaded(others if loaded else others | {endpoint: _parts(found)})
            self._crew.adopt_later(self._order())
            problem = await self._crew.set_loaded(endpoint, loaded)
        self._news.set()
        return problem

    def _keep_unloaded(self, unloaded: dict[str, list[int]]) -> None:
        if unloaded != self._unloaded:
            self._unloaded = unloaded
            write_durably(self._home.unloaded, json.dumps(unloaded).encode())

    # Broken models

    def _blame(self, revision: str, why: str) -> None:
        now = time.monotonic()
        if not revision:
            self._remarks.append((now, why))
            return
        strikes = self._strikes[revision]
        strikes.append(now)
        while strikes and now - strikes[0] > WITHIN:
            strikes.popleft()
        if len(strikes) >= STRIKES and revision not in self._broken:
            self._broken[revision] = f"It broke {len(strikes)} workers: {why}"
            write_durably(self._home.broken, json.dumps(self._broken).encode())
            self._adopt()
        self._news.set()

    # Saying how it goes

    def _did(self, did: Did) -> None:
        self._figures.gather(did.revisions, did.calls, did.taps)
        self._windows.add(did.watched)
        if self._figures.calls >= _MANY_CALLS:
            self._news.set()

    def _text(self, project: str, only: frozenset[str]) -> str:
        seen = [one for one in self._endpoints() if one.project == project and (not only or one.id in only)]
        standing = {
            (endpoint.id, revision.number, rung): self._crew.workers_at(revision.id, place)
            for endpoint in seen
            for revision in endpoint.revisions
            for place, rung in enumerate((revision.variant or ORIGINAL, *(rung.name for rung in revision.ladder)))
            if revision.ladder
        }
        rows = self._crew.rows_waiting()
        return self._figures.text(
            seen,
            workers=len(self._crew.workers),
            serial=self._crew.served(),
            load=self._load(),
            waiting={(one.id, revision.number): rows[revision.id] for one in seen for revision in one.revisions},
            standing=standing,
        )

    def _load(self) -> PlaneLoad:
        rows = self._crew.rows_waiting().total()
        return PlaneLoad(busy=round(self._busy, 4), calls=self._crew.calls(), rows=rows, cards=self._cards.loads())

    async def _report(self) -> None:
        while self._control is not None:
            with suppress(TimeoutError):  # `wait_for` of Python 3.11 loses a cancellation that comes with the news
                async with asyncio.timeout(_REPORTS):
                    await self._news.wait()
            self._news.clear()
            await self._tell_all()

    async def _tell_all(self) -> None:
        await self._tell()
        while (self._windows or self._figures.calls) and self._is_heard():
            await self._tell()

    def _is_heard(self) -> bool:
        return self._control is not None and not self._silent and self._pending is None

    async def _tell(self) -> None:
        """Send what there is; what was not acknowledged is sent again as it was, so that it counts once."""
        if self._control is None or self._silent:
            return
        if self._pending is None:
            self._pending = self._next_report()
        try:
            await asyncio.to_thread(self._control.report, self._pending)
            self._pending = None
        except (Invalid, TooLarge) as error:
            log.error("a report will never be taken and is dropped: %s", error)
            self._pending = None
        except FalajError as error:
            log.warning("the report was not taken: %s", error)

    def _next_report(self) -> Report:
        gathered, calls = self._figures.take()
        did = {(one.endpoint, one.revision): one for one in gathered}
        served, problems = self._crew.served(), self._problems()
        if self._follower.state is not None and served == self._follower.state.serial:
            self._well = {revision.id for revision in self._revisions()} - problems.keys()
        revisions = []
        for endpoint in self._endpoints():
            for revision in endpoint.revisions:
                one = did.get((endpoint.id, revision.number)) or RevisionReport(
                    endpoint=endpoint.id, revision=revision.number, ready=False
                )
                problem = problems.get(revision.id, "")
                broken = revision.id in self._broken
                ready = bool(served) and revision.id in self._well and not problem
                rungs = self._with_workers(revision, one.rungs)
                revisions.append(replace(one, ready=ready, problem=problem[:2000], quarantined=broken, rungs=rungs))
        now, self._number = time.monotonic(), self._number + 1
        seconds, self._told = now - self._told, now
        return Report(
            run=self._run,
            number=self._number,
            url=self._url,
            certificate=shown_certificate(self._settings.certificate),
            version=__version__,
            workers=len(self._crew.workers),
            serial=served,
            seconds=seconds,
            revisions=tuple(revisions),
            calls=calls,
            watched=self._windows.take(),
            problems=tuple(dict.fromkeys(remark for at, remark in self._remarks if now - at < WITHIN)),
            load=self._load(),
        )

    def _with_workers(self, revision: Revision, rungs: tuple[RungReport, ...]) -> tuple[RungReport, ...]:
        return tuple(replace(rung, workers=self._crew.workers_at(revision.id, place)) for place, rung in enumerate(rungs))

    def _problems(self) -> dict[str, str]:
        """By revision."""
        unloaded = {
            revision.id: f"The endpoint {endpoint.name!r} was unloaded on this host, until somebody loads it or deploys anew."
            for endpoint in self._endpoints()
            if endpoint.id in self._unloaded
            for revision in endpoint.revisions
        }
        return {**unloaded, **self._crew.problems(), **self._follower.problems, **self._broken}

    # How many workers

    async def _decide(self) -> None:
        seen: dict[int, float] = {}
        busy_until, shed, before = time.monotonic(), 0, time.monotonic()
        while True:
            await asyncio.sleep(_DECIDES)
            now, workers = time.monotonic(), self._crew.present()
            used = {one.process.pid: one.cpu_seconds() for one in workers}
            spent = sum(seconds - seen.get(pid, seconds) for pid, seconds in used.items())
            load = Load(
                workers=self._crew.wanted,
                busy=spent / (now - before) / max(1, len(workers)),
                calls=sum(one.calls() for one in workers) / max(1, len(workers)),
                shed=self._figures.shed() - shed,
                late=self._figures.late(self._endpoints()),
                calm_for=now - busy_until,
            )
            self._busy = load.busy
            calls = self._settings.calls_per_worker
            wanted = wanted_workers(load, least=self._settings.least_workers, most=self._most, calls=calls)
            if not is_calm(load, calls=calls):
                busy_until = now
            if wanted != self._crew.wanted:
                await self._crew.grow(wanted)
                busy_until = now
            seen, shed, before = used, self._figures.shed(), now
            for one in workers:
                if one.memory_bytes() > self._memory and now - one.born > _SETTLED:
                    remark = f"A worker grew beyond {self._memory >> 20} MiB of memory and was replaced; does a model leak?"
                    log.warning(remark)
                    self._remarks.append((now, remark))
                    await self._crew.replace(one)
                    break


async def _steadily(work: Callable[[], Awaitable[None]]) -> None:
    """A fault in one round must not be the end of it: a plane that does not follow, report or watch looks well and is not."""
    while True:
        try:
            return await work()
        except Exception:
            log.exception("the plane stumbled and goes on")
            await asyncio.sleep(_STUMBLES)


def _read_broken(home: PlaneHome) -> dict[str, str]:
    return {id: str(why) for id, why in _read_document(home.broken).items()}


def _read_unloaded(home: PlaneHome) -> dict[str, list[int]]:
    return {id: parts for id, parts in _read_document(home.unloaded).items() if isinstance(parts, list)}


def _read_document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _parts(endpoint: Endpoint) -> list[int]:
    """The revisions that have a part in the traffic."""
    return sorted(arm.revision for arm in endpoint.arms if arm.share > 0)


def _url(listener: socket.socket, *, near: str, tls: bool) -> str:
    """How callers reach this host: where it listens everywhere, at its address on the way to the platform."""
    host, port = listener.getsockname()[:2]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104 - compared with, not bound to
    name = _address_near(near, listener.family) or everywhere[host] if host in everywhere else host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def _address_near(url: str, family: int) -> str:
    """This host's own address on the way there; nothing is sent to find it out. Empty where there is no way."""
    there = urlsplit(url)
    if not there.hostname:
        return ""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((there.hostname, there.port or 443))
            return str(way.getsockname()[0])
    except OSError:
        return ""
