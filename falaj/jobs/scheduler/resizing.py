"""Elastic jobs that have fewer seats than they would like get more when nobody waits for them."""

import heapq

from falaj.jobs.scheduler.lines import Holding
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.quotas import available
from falaj.jobs.scheduler.values import Placement, Resize


def grow(memory: Memory) -> list[Resize]:
    resizes: list[Resize] = []
    for held in sorted(
        memory.elastic.values(), key=lambda held: (-held.running.job.priority, held.running.started, held.running.job.id)
    ):
        settled = held.sized + max(1, memory.rules.least_run)
        if held.running.stopping is not None or held.lineup.queue is None or not held.lineup.queue.open:
            continue
        if settled > memory.now:
            heapq.heappush(memory.alarms, (settled, "grow", held.running.job.id))
            continue
        placement = _larger(memory, held)
        if placement is not None:
            memory.reseat(held, placement, memory.now)
            resizes.append(Resize(job=held.running.job.id, placement=placement, reason="nobody waits for what is idle"))
    return resizes


def _larger(memory: Memory, held: Holding) -> Placement | None:
    job, seats = held.running.job, held.running.placement
    more = min(job.count - len(seats), _allowed(memory, held))
    stays_together = job.topology in ("host", "rack")
    while more > 0:
        if stays_together:
            whole = memory.floor.room.find(job, len(seats) + more, without=[held.running])
            if whole is not None:
                return whole
        else:
            added = memory.floor.room.find(job, more)
            if added is not None:
                return (*seats, *added)
        more //= 2
    return None


def _allowed(memory: Memory, held: Holding) -> int:
    """How many more tasks the queue's quota allows; what it has now shows what each of them takes."""
    branch, tasks = held.lineup.branch, len(held.running.placement)
    if branch is None:
        return held.running.job.count
    lefts = [available(branch, index) // max(1, amount // tasks) for index, amount in held.charge]
    return min(lefts, default=held.running.job.count)
