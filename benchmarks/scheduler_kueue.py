"""Kueue's own performance test through the real controller: real time, a real database, decisions written before they count.

5 cohorts of 6 queues, each owed 20 CPUs with 100 to borrow; 500 jobs a queue in three classes; the work alone needs 66 s.
Jobs are timers, so nothing is measured but scheduling. Each submission is a transaction of its own, as people would make them.
"""

import heapq
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from falaj.app.home import Home
from falaj.app.jobs import JobRuns
from falaj.app.platform import Platform, open_platform
from falaj.app.settings import Settings
from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.governance.projects.store import project_named
from falaj.governance.zones.residency import ProjectZones
from falaj.jobs import documents
from falaj.jobs.documents import Document
from falaj.jobs.doors import Door
from falaj.jobs.kin import kin_of
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, QuotaOf
from falaj.jobs.operations.words import Resources
from falaj.jobs.orders import order_of, write_order
from falaj.jobs.pricing import FREE
from falaj.jobs.room import Jobs
from falaj.jobs.scheduler.values import Node
from falaj.jobs.store import jobs, queues
from falaj.jobs.views import spec_written
from falaj.storage.service import BlobService
from falaj.testing.timers import TimerEngine

PUBLISHED_SECONDS: Final = 351.0
COHORTS, QUEUES = 5, 6
NOMINAL, BORROWED = 20_000, 100_000  # thousandths of a core
EVERY: Final = 0.2  # seconds between two turns of the controller, as the platform takes them


class Class(NamedTuple):
    name: str
    jobs: int  # of each queue
    cpus: int
    seconds: float
    priority: int
    every: float  # seconds between two submissions


CLASSES: Final = (
    Class("small", 350, 1, 0.2, 50, 0.1),
    Class("medium", 100, 5, 0.5, 100, 0.5),
    Class("large", 50, 20, 1.0, 200, 1.2),
)


class Ran(NamedTuple):
    seconds: float  # from the first submission to the last end
    jobs: int
    attempts: int
    turns: int
    longest_turn: float
    processor_seconds: float  # of this process, timers and submissions included


class Baseline:
    """A platform of its own in a folder, with an engine of timers and Kueue's queues."""

    def __init__(self, platform: Platform) -> None:
        self.database, self.clock = platform.database, platform.clock
        zone = platform.settings.platform.zone
        # Kueue's test has quotas and no hosts: these are more than all quotas together.
        hosts = [Node(name=f"host-{number:02d}", zone=zone, cpu_milli=100_000, memory_mib=10**6) for number in range(12)]
        self.engine = TimerEngine("timers", hosts, self.clock)
        self.jobs = Jobs(
            database=self.database,
            clock=self.clock,
            blobs=BlobService(platform.places, platform.ring, self.clock, ProjectZones()),
            ring=platform.ring,
            gate=platform.gate,
            engines={"timers": self.engine},
            pricer=FREE,
            runs=JobRuns(),
            url="",
            door=Door(),
            folder=platform.home.jobs / "timers",
            checkpoints=platform.home.jobs / "checkpoints",
            checkpoints_kept=0,
        )
        token = platform.owner_token()
        self._owner = self.database.read(lambda work: platform.gate.authenticate(work, token, self.clock.now()))
        self._zone = zone
        self._project = self.database.write(self._prepare)
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}

    def _prepare(self, work: UnitOfWork) -> str:
        text = documents.write(Document(queues=tuple(queue_specs()), cohorts=tuple(cohort_specs())))
        queues.add(work, serial=1, document=text, by=self._owner.principal, now=self.clock.now())
        project = project_named(work, "default")
        assert project is not None
        return project.id

    def submit(self, queue: str, of: Class) -> Future[None]:
        """Of which the caller hears when it is durable."""
        now = self.clock.now()
        row = {**self._row(queue, of), "id": new_id(now), "submitted": int(now)}
        return self.database.submit(lambda work: jobs.add(work, [row], now))

    def _row(self, queue: str, of: Class) -> dict[str, Any]:
        """All that jobs of one class and queue have in common."""
        known = self._rows.get((queue, of.name))
        if known is not None:
            return known
        spec = Spec(
            name=of.name,
            command=("timer", str(of.seconds)),
            resources=Resources(cpus=of.cpus, memory_mib=16),
            queue=queue,
            zone=self._zone,
        )
        order = order_of(
            spec,
            id="",
            project=self._project,
            user=self._owner.principal,
            queue=queue,
            priority=of.priority,
            zone=self._zone,
            now=self.clock.now(),
        )
        row = self._rows[queue, of.name] = {
            "project": self._project,
            "name": spec.name,
            "queue": queue,
            "priority": "normal",
            "zone": self._zone,
            "spec": spec_written(spec),
            "order": write_order(order),
            "submitted_by": self._owner.principal,
            "token": self._owner.token or "",
            "retries": spec.retries,
            "kin": kin_of(self._project, spec),
        }
        return row

    def left(self) -> int:
        """Jobs that are not over."""
        return self.database.read(lambda work: jobs.count_live(work, self._project))

    def over(self) -> dict[str, int]:
        """How many ended in which state."""
        rows = self.database.read(lambda work: jobs.page(work, self._project, limit=10**6))
        states = [row.state for row in rows]
        return {state: states.count(state) for state in set(states)}


def queue_specs() -> Iterator[QueueSpec]:
    for cohort in range(COHORTS):
        for number in range(QUEUES):
            quota = QuotaOf(resource="cpu", nominal=NOMINAL, borrow=BORROWED)
            yield QueueSpec(name=f"queue-{cohort}-{number}", cohort=f"cohort-{cohort}", quotas=(quota,))


def cohort_specs() -> Iterator[CohortSpec]:
    return (CohortSpec(name=f"cohort-{cohort}") for cohort in range(COHORTS))


def submissions(classes: Sequence[Class]) -> list[tuple[float, str, Class]]:
    """Second, queue and class of every job."""
    times = ([(number * of.every, spec.name, of) for number in range(of.jobs)] for spec in queue_specs() for of in classes)
    return list(heapq.merge(*times, key=lambda one: one[0]))


@contextmanager
def baseline() -> Iterator[Baseline]:
    with tempfile.TemporaryDirectory() as folder:
        clock = SystemClock()
        with open_platform(Home(path=Path(folder) / "home"), Settings(), clock=clock) as platform:
            yield Baseline(platform)


def replay(classes: Sequence[Class] = CLASSES, every: float = EVERY) -> Ran:
    coming = submissions(classes)
    turns, longest = 0, 0.0
    with baseline() as made:
        made.jobs.step()  # it knows its hosts
        began, spent = time.perf_counter(), time.process_time()
        submitted = 0
        while True:
            turn_began = time.perf_counter()
            due = submitted
            while due < len(coming) and coming[due][0] <= turn_began - began:
                due += 1
            for durable in [made.submit(queue, of) for _, queue, of in coming[submitted:due]]:
                durable.result()
            submitted = due
            more = made.jobs.step()
            turns += 1
            longest = max(longest, time.perf_counter() - turn_began)
            if submitted == len(coming) and not made.left():
                break
            if not more:
                time.sleep(max(0.0, every - (time.perf_counter() - turn_began)))
        seconds = time.perf_counter() - began
        over = made.over()
        if over != {"done": len(coming)}:
            raise RuntimeError(f"not every job was done: {over}")
        return Ran(seconds, len(coming), len(made.engine.starts), turns, longest, time.process_time() - spent)
