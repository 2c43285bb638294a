"""How jobs of one queue stand in line: how long they will take as far as anybody knows, and what waiting and deadlines add.

Where a duration is known, what counts is the service still to come; where it is not, the service had so far in steps of four:
most jobs are short, so the one that had least will most likely be over first.
"""

import math
from typing import Final

from falaj.jobs.scheduler.values import CARD, Job, Rules

HOUR: Final = 3_600_000_000
# A card weighs as much as this many cores, or this much memory, when unlike jobs are compared.
CORES_PER_CARD: Final = 16
MIB_PER_CARD: Final = 131_072
# Wide jobs are the harder to place: they count a little less than in proportion.
WIDTH_POWER: Final = 0.85
FIRST_STEP: Final = float(HOUR)  # of one card, before a job of unknown duration falls behind newer ones
STEP_FACTOR: Final = 4.0
# In a queue that goes by length, waiting is counted against a job's own length: this many times of it is too long.
PATIENCE: Final = 64
URGENT_STEPS: Final = 10  # so many steps of priority does a deadline add until it is due


def width(job: Job, tasks: int) -> float:
    """How much of a cluster a job takes, in cards."""
    shape = job.shape
    widest = max(
        shape.cpu_milli / (1000 * CORES_PER_CARD), shape.memory_mib / MIB_PER_CARD, shape.gpus * shape.gpu_milli / CARD
    )
    return widest * tasks


def service(job: Job, served: int) -> float:
    """What is still to come of a job, times its width; of one that outlasted what was declared, as if nothing had been."""
    if job.duration > served:
        return (job.duration - served) * breadth(job)
    return step_above(served * breadth(job))


def breadth(job: Job) -> float:
    """What a job's width counts for in its service."""
    return math.pow(max(width(job, job.count), 1e-6), WIDTH_POWER)


def step_above(had: float) -> float:
    """The end of the step in which this much service lies."""
    edge = FIRST_STEP
    while edge <= had:
        edge *= STEP_FACTOR
    return edge


def next_step(job: Job, served: int) -> int:
    """When run on from here, after what time `service` jumps up."""
    if job.duration > served:
        return job.duration - served
    wide = breadth(job)
    return max(1, math.ceil(step_above(served * wide) / wide) - served)


def length(job: Job) -> int:
    """Of the whole of it, declared; else to the end of the step that its service so far lies in."""
    return max(job.duration, job.served) if job.duration else job.served + next_step(job, job.served)


def patience(job: Job, rules: Rules, by_length: bool) -> int:
    """How long a job may wait before it is reserved for, whatever comes."""
    return max(rules.longest_wait, PATIENCE * length(job) if by_length else 0)


def starves_from(job: Job, rules: Rules, by_length: bool) -> int:
    """The moment from which a job is reserved for, whatever comes."""
    return job.submitted + job.served + patience(job, rules, by_length)


def lift(job: Job, rules: Rules, by_length: bool, now: int) -> tuple[int, int | None]:
    """What waiting and a deadline add to a job's priority now, and when that changes next."""
    every = max(1, rules.aging, patience(job, rules, by_length) if by_length else 0)
    since = job.submitted + job.served
    most = max(0, rules.longest_wait // max(1, rules.aging))
    steps = max(0, min(most, (now - since) // every))
    change = since + (steps + 1) * every if steps < most else None
    if job.deadline is not None:
        urgent, then = _urgency(job, rules, now)
        steps += urgent
        change = then if change is None else change if then is None else min(change, then)
    return steps * rules.aging_step, change


def _urgency(job: Job, rules: Rules, now: int) -> tuple[int, int | None]:
    """Nothing while there is time for twice what is needed; then one step for every tenth of it that is lost."""
    assert job.deadline is not None  # nosec B101 - said for the types alone
    needed = max(0, job.duration - job.served)
    tenth = max(1, 2 * max(needed, rules.aging) // URGENT_STEPS)
    latest = job.deadline - needed
    steps = max(0, min(URGENT_STEPS, URGENT_STEPS - (latest - now) // tenth))
    if steps >= URGENT_STEPS:
        return steps, None
    return steps, latest - (URGENT_STEPS - steps) * tenth + 1
