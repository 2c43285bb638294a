"""Moving jobs together, so that a wider one gets a host whole.

Where a queue goes by length, a wider job may not take the place of shorter ones; and what a queue is owed may not be taken from
those within another's own share. But they need not stand where they do: each of them could take the place of a longer one, or
of a borrower, on another host, by its own right, and will. Only in small clusters is it worth the search.
"""

from typing import Final, NamedTuple

from falaj.jobs.scheduler.choosing import Search
from falaj.jobs.scheduler.lines import Holding, Lineup
from falaj.jobs.scheduler.preempting import Candidates, Rights
from falaj.jobs.scheduler.values import Job, Placement

SETTLED: Final = 10  # minimum runs after which one may be moved
MOST_RUNNING: Final = 256  # of a queue and priority, or four times as many of a tree


class Moves(NamedTuple):
    """`victims` may be stopped by right; `movable` may be moved, no more than `most` of them (in cards)."""

    victims: list[Holding]
    movable: list[Holding]
    most: float


def worth_moving(lineup: Lineup, priority: int) -> bool:
    if lineup.queue is None or not lineup.queue.preempt:
        return False
    return lineup.by_length and 0 < len(lineup.holdings.get(priority, ())) <= MOST_RUNNING


def with_moves(
    rights: Rights, search: Search, found: Candidates, *, has_quota: bool
) -> tuple[list[Holding] | None, list[Holding]]:
    """Who is to be stopped, and which of these are only to move; None where that does not help."""
    moves = _for_its_share(rights, search, found) if found.reclaimed else _for_its_length(rights, search, found)
    memory, wide = rights.memory, search.wide
    settled = memory.now - SETTLED * memory.rules.least_run
    movable = [
        held
        for held in moves.movable
        if held.running.started <= settled and len(held.running.placement) == 1 and held.rate < wide
    ]
    if not movable:
        return None, []
    search.moving = {id(held) for held in movable}
    picked = search.fewest([*moves.victims, *movable], has_quota=has_quota)
    moved = [held for held in picked or () if id(held) in search.moving]
    search.moving = set()
    if not moved or sum([held.rate for held in moved]) > moves.most or not _all_seated(search, moves.victims, moved):
        return None, []
    return picked, moved


def _for_its_length(rights: Rights, search: Search, found: Candidates) -> Moves:
    lineup, job = search.line.lineup, search.waiting.job
    shorter = rights.shorter(lineup, job) if worth_moving(lineup, job.priority) else []
    return Moves(found.outranked, shorter, search.wide)


def _for_its_share(rights: Rights, search: Search, found: Candidates) -> Moves:
    """Most of the place is what borrowers give back."""
    victims = [*found.reclaimed, *found.outranked]
    within = {id(held) for held in victims}
    others = [held for held in rights.of_tree(search.line.lineup, 4 * MOST_RUNNING) if id(held) not in within]
    return Moves(victims, others, search.wide / 2)


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
