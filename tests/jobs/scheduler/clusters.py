"""A cluster in a test: it does with plans what a controller does, by a clock of its own, and holds them against the facts."""

import heapq
import math
from collections.abc import Iterable
from dataclasses import replace

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.jobs.scheduler.facts import Facts, Past
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CARD, GPU, Cohort, Job, Node, Plan, Queue, Quota, Rules, Running, Shape

START = Moment(1_700_000_000 * SECOND)


def a_node(name: str = "n0", *, cards: int = 8, cpu: int = 64, zone: str = "here", **more: object) -> Node:
    return Node(name=name, zone=zone, cpu_milli=cpu * 1000, memory_mib=1 << 20, cards=("H100",) * cards, **more)  # type: ignore[arg-type]


def a_queue(
    name: str = "default", *, gpus: int | None = None, borrow: int | None = None, lend: int | None = None, **more: object
) -> Queue:
    quotas = {}
    if gpus is not None:
        limits = [None if limit is None else limit * CARD for limit in (borrow, lend)]
        quotas = {"gpu": Quota(nominal=gpus * CARD, borrow=limits[0], lend=limits[1])}
    return Queue(name=name, quotas=quotas, **more)  # type: ignore[arg-type]


def a_job(name: str, *, gpus: int = 1, queue: str = "default", at: int = START, **more: object) -> Job:
    given: dict[str, object] = {"project": "p", "user": "u", "zones": ("here",)} | more
    shape = given.pop("shape", None) or Shape(cpu_milli=0, memory_mib=0, gpus=gpus)
    return Job(id=name, queue=queue, submitted=Moment(at), shape=shape, **given)  # type: ignore[arg-type]


SHIPPED = Rules()


class Cluster:
    """`takes` says how long a job really runs; by default what it declared, or an hour."""

    def __init__(
        self, *, nodes: Iterable[Node], queues: Iterable[Queue], cohorts: Iterable[Cohort] = (), rules: Rules = SHIPPED
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.queues = {queue.name: queue for queue in queues}
        self.cohorts = tuple(cohorts)
        self.rules = rules
        self.scheduler = self.fresh()
        self.now = START
        self.jobs: dict[str, Job] = {}
        self.takes: dict[str, int] = {}
        self.running: dict[str, Running] = {}
        self.waiting: dict[str, Job] = {}
        self.ended: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.plans: list[Plan] = []
        self.stopped: list[tuple[str, str]] = []  # who, for whom
        self.past: list[Past] = []
        self._ends: list[tuple[int, str, int]] = []
        self._next: Moment | None = None
        self.slow_to_stop = False  # whether jobs use all of their grace

    def fresh(self) -> Scheduler:
        return Scheduler(self.rules, nodes=self.nodes.values(), queues=self.queues.values(), cohorts=self.cohorts)

    def rebuilt(self) -> Scheduler:
        """Another one from what is known, as a controller that starts anew has."""
        facts = Facts(
            nodes=tuple(self.nodes.values()),
            queues=tuple(self.queues.values()),
            cohorts=self.cohorts,
            past=tuple(self.past),
            waiting=tuple(self.waiting.values()),
            running=tuple(self.running.values()),
        )
        return facts.scheduler(self.rules)

    def submit(self, job: Job, *, takes: int = 0) -> None:
        self.jobs[job.id] = job
        self.takes[job.id] = takes or job.duration or HOUR
        self.waiting[job.id] = job
        self.scheduler.submitted(job)

    def decide(self) -> Plan:
        """One round, and its effects; jobs that are told to stop do so at once, unless they are slow."""
        plan = self.scheduler.decide(self.now)
        self.plans.append(plan)
        self._next = plan.next
        for resize in plan.resizes:
            self._meter(self.running[resize.job], less=len(resize.placement))
            self.running[resize.job] = replace(self.running[resize.job], placement=resize.placement)
        for stop in plan.stops:
            self.stopped.append((stop.job, stop.for_job))
            self.running[stop.job] = replace(self.running[stop.job], stopping=stop.until)
            heapq.heappush(
                self._ends,
                (int(stop.until) if self.slow_to_stop else int(self.now), stop.job, int(self.running[stop.job].started)),
            )
        for start in plan.starts:
            job = self.waiting.pop(start.job)
            self.started.setdefault(job.id, int(self.now))
            self.running[job.id] = Running(job=job, placement=start.placement, started=self.now)
            left = max(1, self.takes[job.id] - job.served)
            heapq.heappush(self._ends, (int(self.now) + left, job.id, int(self.now)))
        return plan

    def settle(self, most: int = 200) -> None:
        """Rounds until one changes nothing, time standing still."""
        for _ in range(most):
            self.let_end()
            plan = self.decide()
            if not (plan.starts or plan.stops or plan.resizes):
                return
        raise AssertionError(f"{most} rounds at one moment did not come to rest: {self.stopped[-6:]}")

    def let_end(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            _, name, started = heapq.heappop(self._ends)
            running = self.running.get(name)
            if running is None or running.started != started:
                continue
            del self.running[name]
            self._meter(running)
            self.scheduler.ended(name, self.now)
            served = running.job.served + self.now - running.started
            if running.stopping is not None and served < self.takes[name]:
                again = self.waiting[name] = replace(running.job, served=served)
                self.scheduler.submitted(again)
            else:
                self.ended[name] = int(self.now)

    def _meter(self, running: Running, less: int = 0) -> None:
        """What it has used until now, as the memory of it fades; of one that goes on, beyond what its new seats count for."""
        shape, half_life = running.job.shape, self.rules.half_life
        faded = half_life / math.log(2) * (1 - math.pow(2, (running.started - self.now) / half_life))
        used = shape.gpus * shape.gpu_milli * (len(running.placement) - less) * faded
        self.past.append(Past(queue=running.job.queue, used={GPU: int(used)}, at=self.now))

    def advance(self, span: int) -> None:
        """Lets time pass, deciding whenever something happens or a plan said to look again."""
        until = self.now + span
        self.settle()
        while True:
            moments = [moment for moment in (self._ends[0][0] if self._ends else None, self._next) if moment is not None]
            then = max(min(moments, default=until), self.now)
            if then >= until:
                break
            if then == self.now:
                then = Moment(self.now + SECOND)
            self.now = Moment(then)
            self.settle()
        self.now = Moment(until)
        self.settle()

    def gpus(self, queue: str) -> int:
        return sum(
            len(seat.cards) for running in self.running.values() if running.job.queue == queue for seat in running.placement
        )

    def why(self, job: str) -> str:
        return next((wait.kind for plan in reversed(self.plans) for wait in plan.waits if wait.job == job), "")
