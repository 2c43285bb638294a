"""Elastic jobs that have fewer seats than they would like get more when nobody waits for them."""

import heapq
from collections.abc import Sequence

from falaj.jobs.scheduler.lines import Holding
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.quotas import available
from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Job, Placement, Resize, Running


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
            resizes.append(
                Resize(job=held.running.job.id, placement=placement, reason="It grows: nobody waits for what is idle.")
            )
    return resizes


def _larger(memory: Memory, held: Holding) -> Placement | None:
    job, seats, room = held.running.job, held.running.placement, memory.floor.room
    more = min(job.count - len(seats), _allowed(held))
    if more < 1:
        return None
    if job.topology in ("host", "rack") or room.is_divided:  # all of it stays together, so all of it may have to move
        return most_seats(room, job, len(seats) + 1, len(seats) + more, without=[held.running])
    added = most_seats(room, job, 1, more)
    return (*seats, *added) if added is not None else None


def most_seats(room: Room, job: Job, least: int, most: int, without: Sequence[Running] = ()) -> Placement | None:
    """As many as there is room for, between the two; None where there is none for the least."""
    best = room.find(job, most, without)
    if best is not None or most <= least:
        return best
    best = room.find(job, least, without)
    low, high = least, most - 1
    while best is not None and low < high:
        middle = (low + high + 1) // 2
        found = room.find(job, middle, without)
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle
    return best


def _allowed(held: Holding) -> int:
    """How many more tasks the queue's quota allows; what it has now shows what each of them takes."""
    branch, tasks = held.lineup.branch, len(held.running.placement)
    if branch is None:
        return held.running.job.count
    lefts = [available(branch, index) // max(1, amount // tasks) for index, amount in held.charge]
    return min(lefts, default=held.running.job.count)
