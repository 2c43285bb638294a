"""Moving shorter jobs together, where a queue goes by length, so that a wider one gets a host whole.

The wider one may not take the place of those that stand before it. But they need not stand where they do: each of them could
take the place of a longer one on another host, by its own right, and will. Only in small clusters is it worth the search.
"""

from typing import Final

from falaj.jobs.scheduler.choosing import Search
from falaj.jobs.scheduler.lines import Holding, Lineup
from falaj.jobs.scheduler.preempting import Rights
from falaj.jobs.scheduler.values import Job, Placement

SETTLED: Final = 10  # minimum runs after which one may be moved
MOST_RUNNING: Final = 256


def worth_moving(lineup: Lineup, priority: int) -> bool:
    if lineup.queue is None or not lineup.queue.preempt:
        return False
    return lineup.by_length and 0 < len(lineup.holdings.get(priority, ())) <= MOST_RUNNING


def with_moves(rights: Rights, search: Search, longer: list[Holding]) -> tuple[list[Holding] | None, list[Holding]]:
    """Who is to be stopped, and which of these are only to move; None where that does not help."""
    lineup, job = search.line.lineup, search.waiting.job
    memory, wide = rights.memory, search.wide
    settled = memory.now - SETTLED * memory.rules.least_run
    movable = [
        held
        for held in rights.shorter(lineup, job)
        if held.running.started <= settled and len(held.running.placement) == 1 and held.rate < wide
    ]
    if not movable:
        return None, []
    picked = search.fewest([*longer, *movable], has_quota=True)
    if picked is None:
        return None, []
    moved = [held for held in picked if held in movable]
    if not moved or sum([held.rate for held in moved]) > wide or not _all_seated(search, longer, moved):
        return None, []
    return picked, moved


def _all_seated(search: Search, longer: list[Holding], moved: list[Holding]) -> bool:
    """Whether those that move all find seats beside the wide one, if longer ones make way for them."""
    room, seated = search.memory.floor.room, [(search.waiting.job, search.seats)]
    for held in (*longer, *moved):
        room.give(held.running.job, held.running.placement)
    room.take(*seated[0])
    for held in sorted(moved, key=lambda held: (-held.rate, held.running.job.id)):
        seats: Placement | None = room.find(held.running.job, 1)
        if seats is None:
            break
        found: tuple[Job, Placement] = held.running.job, seats
        seated.append(found)
        room.take(*found)
    for taken in reversed(seated):
        room.give(*taken)
    for held in (*longer, *moved):
        room.take(held.running.job, held.running.placement)
    return len(seated) == 1 + len(moved)
