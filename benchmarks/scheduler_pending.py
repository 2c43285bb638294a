"""How long the next decision takes with 100,000 jobs pending on openb's 1,213 hosts.

20 queues in 4 cohorts with 6 users each, of whom each submits jobs of 5 shapes of the trace, as sweeps do. All hosts are full;
before every decision one job ends and another comes, as in a cluster that has more to do than it can.
"""

import random
import statistics
import time
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

from scheduler_openb import Openb

from falaj.base.clock import SECOND, Moment
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CARD, GPU, Cohort, Job, Node, Queue, Quota, Rules

PENDING: Final = 100_000
QUEUES, COHORTS, USERS, KINDS = 20, 4, 6, 5
DECISIONS: Final = 300  # that are timed


class Decided(NamedTuple):
    median_ms: float
    worst_ms: float
    first_ms: float  # of the decision that fills the empty cluster
    told_us: float  # for telling the scheduler of one job
    running: int
    started: int


def replay(openb: Openb, pending: int = PENDING, decisions: int = DECISIONS) -> Decided:
    chance = random.Random(1)
    scheduler = Scheduler(Rules(), nodes=openb.nodes, queues=_queues(openb.nodes), cohorts=_cohorts())
    jobs = _jobs(openb, chance)
    running: list[str] = []
    now = Moment(SECOND)
    first = telling = 0.0
    told = 0
    while told - len(running) < pending:
        many = pending - (told - len(running))
        began = time.perf_counter()
        for _ in range(many):
            scheduler.submitted(next(jobs))
        between = time.perf_counter()
        plan = scheduler.decide(now)
        first = first or time.perf_counter() - between
        telling, told = telling + between - began, told + many
        running += [start.job for start in plan.starts]
    spans, started = [], 0
    for _ in range(decisions):
        now = Moment(now + SECOND)
        place = chance.randrange(len(running))
        running[place], running[-1] = running[-1], running[place]
        scheduler.ended(running.pop(), now)
        scheduler.submitted(next(jobs))
        at = time.perf_counter()
        plan = scheduler.decide(now)
        spans.append((time.perf_counter() - at) * 1000)
        running += [start.job for start in plan.starts]
        started += len(plan.starts)
    per_job = telling / told * 1e6
    return Decided(statistics.median(spans), max(spans), first * 1000, per_job, len(running), started)


def _jobs(openb: Openb, chance: random.Random) -> Iterator[Job]:
    kinds = [[chance.choice(openb.shapes) for _ in range(KINDS)] for _ in range(QUEUES * USERS)]
    for number in count():
        user = chance.randrange(QUEUES * USERS)
        yield Job(
            id=f"job-{number:07d}",
            project=f"project-{user // 2}",
            user=f"user-{user}",
            queue=f"queue-{user % QUEUES}",
            submitted=Moment(number),
            shape=chance.choice(kinds[user]),
            zones=("openb",),
            priority=chance.choice((-100, 0, 0, 0, 100)),
        )


def _queues(nodes: list[Node]) -> list[Queue]:
    share = sum(len(node.cards) for node in nodes) * CARD // QUEUES
    return [
        Queue(
            name=f"queue-{number}",
            cohort=f"cohort-{number % COHORTS}",
            quotas={GPU: Quota(nominal=share)},
            order="shortest" if number % 2 else "fifo",
        )
        for number in range(QUEUES)
    ]


def _cohorts() -> list[Cohort]:
    return [Cohort(name=f"cohort-{number}", parent="", quotas={}) for number in range(COHORTS)]
