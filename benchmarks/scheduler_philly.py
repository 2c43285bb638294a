"""Mean queueing on Philly: 11 queues that lend and reclaim on 76 hosts with 8 GPUs each, against one pool for all.

The same arrivals, hosts and order (first in, first out, others may pass one that does not fit). A job that gives back takes
its grace to do so and keeps its progress. Whether every queue's own share is honoured is watched throughout.
"""

import math
import time
from bisect import insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from scheduler_traces import PHILLY_NODES, gpu_nodes, philly, philly_nodes, philly_queues

from falaj.base.clock import SECOND, Moment
from falaj.jobs.scheduler.playing import Arrival, Play
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Cohort, Job, Plan, Queue, Rules

# Seconds, from the reference replay: hard partitions, one pool.
PARTITIONED: Final = {"fifo": 94_416, "shortest": 24_900}
POOLED: Final = {"fifo": 6_343, "shortest": 2_681}
CLUSTERS: Final = tuple(PHILLY_NODES)


class Queued(NamedTuple):
    mean: float  # seconds that a job did not run between its submission and its end
    jobs: int
    stops: int
    rounds: int
    seconds: float  # of real time
    broken: int  # times a queue's own share was withheld for longer than the rules allow


class Shares:
    """Watches that the first of a queue that would fit into what is left of its own share does not wait longer than the
    youngest borrower is safe and may take to give back. Not while that share is kept for one of the same queue that came
    before it and holds a place in the future."""

    def __init__(self, nominal: dict[str, int], jobs: dict[str, Job], patience: int) -> None:
        self.broken: list[tuple[int, str]] = []  # when, and which job
        self._left = dict(nominal)
        self._jobs = jobs
        self._patience = patience
        self._waiting: dict[str, dict[int, list[tuple[int, str]]]] = {queue: {} for queue in nominal}  # by GPUs, in order
        self._first: dict[str, tuple[str, int]] = {}  # by queue, which job is owed a place since when
        self._kept: dict[str, int] = {}  # by queue, when the first came that holds a place in the future

    def came(self, job: Job) -> None:
        insort(self._waiting[job.queue].setdefault(gpus_of(job), []), (int(job.submitted), job.id))

    def started(self, id: str) -> None:
        job = self._jobs[id]
        self._waiting[job.queue][gpus_of(job)].remove((int(job.submitted), id))
        self._left[job.queue] -= gpus_of(job)

    def gave_back(self, id: str) -> None:
        self._left[self._jobs[id].queue] += gpus_of(self._jobs[id])

    def reserved(self, plan: Plan) -> None:
        """A plan that changes nothing repeats no places."""
        if plan.reserves or plan.starts or plan.stops:
            self._kept = {}
            for job in (self._jobs[reserve.job] for reserve in plan.reserves):
                self._kept[job.queue] = min(int(job.submitted), self._kept.get(job.queue, int(job.submitted)))

    def look(self, now: Moment) -> None:
        for queue, waiting in self._waiting.items():
            left = self._left[queue]
            fitting = [lined[0] for gpus, lined in waiting.items() if gpus <= left and lined] if left > 0 else []
            if not fitting or self._kept.get(queue, math.inf) < min(fitting)[0]:
                self._first.pop(queue, None)
                continue
            first, (owed, since) = min(fitting)[1], self._first.get(queue, ("", 0))
            if first != owed:
                self._first[queue] = first, now
            elif since >= 0 and now - since > self._patience:
                self.broken.append((since, first))
                self._first[queue] = first, -1


def gpus_of(job: Job) -> int:
    return job.count * job.shape.gpus


class WatchedScheduler(Scheduler):
    """Tells the watch of everything that it is told itself."""

    watched: Shares

    def submitted(self, job: Job) -> None:
        self.watched.came(job)
        super().submitted(job)

    def ended(self, job: str, now: Moment) -> None:
        self.watched.gave_back(job)
        super().ended(job, now)

    def decide(self, now: Moment) -> Plan:
        plan = super().decide(now)
        for start in plan.starts:
            self.watched.started(start.job)
        self.watched.reserved(plan)
        self.watched.look(now)
        return plan

    def watch(self, shares: Shares) -> None:
        self.watched = shares


def replay(arrivals: Sequence[Arrival], nodes: int, queues: Sequence[Queue], cohorts: Sequence[Cohort]) -> Queued:
    rules = Rules()
    scheduler = WatchedScheduler(rules, nodes=gpu_nodes(nodes), queues=queues, cohorts=cohorts)
    jobs = {one.job.id: one.job for one in arrivals}
    nominal = {queue.name: philly_nodes(queue.name) * 8 if queue.cohort else nodes * 8 for queue in queues}
    grace = max((job.grace for job in jobs.values()), default=0)
    scheduler.watch(Shares(nominal, jobs, rules.least_run + grace))
    play = Play(scheduler, gives_back_after=lambda job: job.grace)
    play.coming(arrivals)
    began = time.perf_counter()
    play.run()
    seconds = time.perf_counter() - began
    happened = play.happenings()
    if undone := sum(one.ended is None for one in happened) + len(arrivals) - len(happened):
        raise RuntimeError(f"{undone} jobs were never done")
    mean = sum(one.waited for one in happened) / len(happened) / SECOND
    stops = sum(one.stopped for one in happened)
    return Queued(mean, len(happened), stops, play.rounds, seconds, len(scheduler.watched.broken))


def shared(order: str = "fifo", limit: int | None = None) -> Queued:
    """With quotas, borrowing and reclaim."""
    queues, cohorts = philly_queues(CLUSTERS, order)
    return replay(philly(known=order == "shortest")[:limit], _nodes(), queues, cohorts)


def pooled(order: str = "fifo", limit: int | None = None) -> Queued:
    """One queue for all, without quotas."""
    queue = Queue(name="pool", quotas={}, order="shortest" if order == "shortest" else "fifo")
    return replay(philly(pooled=True, known=order == "shortest")[:limit], _nodes(), [queue], [])


def _nodes() -> int:
    return sum(map(philly_nodes, CLUSTERS))
