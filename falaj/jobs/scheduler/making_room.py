"""Making a place for a job that has none: elastic jobs shrink first, then the fewest sufficient victims are stopped."""

from collections.abc import Set

from falaj.base.clock import Moment
from falaj.jobs.scheduler.choosing import Search
from falaj.jobs.scheduler.claims import Claim
from falaj.jobs.scheduler.consolidating import with_moves, worth_moving
from falaj.jobs.scheduler.lines import Holding, Line, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.owing import borrows_for
from falaj.jobs.scheduler.preempting import MOST_SEARCHES, Candidates, Rights
from falaj.jobs.scheduler.values import Placement, Resize, Running, Stop


class Made:
    """What was done for a job. `claim` is its place; without one, `later` is when it may be worth another try."""

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.resizes: list[Resize] = []
        self.claim: Claim | None = None
        self.kept: Claim | None = None  # where there will be one when borrowers had their minimum run
        self.later: int | None = None
        self.hopeful = False  # whether there were victims, only not enough of them


def make_room(rights: Rights, line: Line, waiting: Waiting, *, has_quota: bool, first: bool, on_hosts: Set[str] | None) -> Made:
    """`first` of its queue to ask in this round: it is never put off. `on_hosts`: where alone anything changed since then."""
    memory, made = rights.memory, Made()
    if rights.searches >= MOST_SEARCHES and not first:
        made.later = memory.now + max(1, memory.rules.least_run)
        return made
    found = rights.candidates(waiting, tuple([(index, amount * line.kind.least) for index, amount in line.demand]))
    already = [held for held in memory.stopping.values() if not held.claim]
    seats = _spare_seats(memory, line, waiting, found)
    victims = [*found.reclaimed, *found.outranked]
    if on_hosts is not None and line.kind.least == 1:
        victims = [held for held in victims if not on_hosts.isdisjoint([seat.node for seat in held.running.placement])]
    made.later = found.later
    may_move = not seats and not already
    by_length = may_move and has_quota and worth_moving(line.lineup, waiting.job.priority)
    if not victims and not already and not seats and not by_length and not found.young:
        return made
    rights.searches += 1
    search = Search(memory, line, waiting, already)
    picked = search.fewest(seats, has_quota=has_quota) if seats or already else None
    if picked is None and victims:
        picked = search.fewest([*seats, *_cores(memory, victims, seats)], has_quota=has_quota)
    moved: list[Holding] = []
    if picked is None and may_move and (by_length or found.reclaimed):
        picked, moved = with_moves(rights, search, found, has_quota=has_quota)
    if picked is None:
        made.hopeful = True
        _keep_for_later(rights, search, [*victims, *found.young] if found.young else [], made, has_quota=has_quota)
    else:
        _carry_out(search, picked, moved, made)
    return made


def _keep_for_later(rights: Rights, search: Search, borrowers: list[Holding], made: Made, *, has_quota: bool) -> None:
    """What is owed will be there once borrowers had their minimum run: until then nobody new may borrow the place."""
    picked = search.fewest(borrowers, has_quota=has_quota) if borrowers else None
    if picked:
        made.later = max([rights.safe_until(held) for held in picked])
        nodes = frozenset([seat.node for seat in search.seats])
        yielding = {held.running.job.id: held for held in picked}
        at = made.later + max([search.memory.rules.grace_of(held.running.job) for held in picked])
        made.kept = Claim(search.waiting, search.tasks, at=at, nodes=nodes, yielding=yielding, forced=False)
        made.kept.owed, made.kept.asked = True, made.later


def _spare_seats(memory: Memory, line: Line, waiting: Waiting, found: Candidates) -> list[Holding]:
    """Seats that elastic jobs can do without: of its own queue's up to its priority, and of others' if it does not borrow."""
    borrows = borrows_for(line)
    parts: list[Holding] = []
    for held in memory.stretched.values():
        job = held.running.job
        mine = held.lineup is line.lineup
        if held.running.stopping is not None or (borrows if not mine else job.priority > waiting.job.priority):
            continue
        settled = held.sized + max(1, memory.rules.least_run)
        if settled > memory.now:
            found.at(settled)
        else:
            parts.extend([_part(memory, held, (seat,)) for seat in reversed(held.running.placement[job.least :])])
    return parts


def _cores(memory: Memory, victims: list[Holding], seats: list[Holding]) -> list[Holding]:
    """Victims, of which those that may shrink stand for what they cannot do without: their other seats are listed apart."""
    shrinking = {id(part.part_of) for part in seats}
    if not shrinking:
        return victims
    return [
        _part(memory, held, held.running.placement[: held.running.job.least], core=True) if id(held) in shrinking else held
        for held in victims
    ]


def _part(memory: Memory, held: Holding, seats: Placement, *, core: bool = False) -> Holding:
    old = held.running
    running = Running(job=old.job, placement=seats, started=old.started, checkpointed=old.checkpointed)
    part = Holding(running, held.lineup, memory.charge_of(held.lineup, running.job.shape, seats))
    part.part_of, part.core = held, core
    return part


def _carry_out(search: Search, picked: list[Holding], moved: list[Holding], made: Made) -> None:
    memory, waiting = search.memory, search.waiting
    stopped: dict[str, Holding] = {}
    given: dict[str, list[Holding]] = {}
    for held in picked:
        whole = held.part_of or held
        if held.part_of is not None and not held.core:
            given.setdefault(whole.running.job.id, []).append(held)
        else:
            stopped[whole.running.job.id] = whole
    made.resizes += [_shrink(memory, parts, waiting) for name, parts in given.items() if name not in stopped]
    made.stops += [_stop(memory, held, waiting, moves=held in moved) for held in stopped.values()]
    yielding = stopped | {held.running.job.id: held for held in search.already}
    at = max([int(held.running.stopping or memory.now) for held in yielding.values()], default=memory.now)
    nodes = frozenset([seat.node for seat in search.seats])
    made.claim = Claim(waiting, search.tasks, at=at, nodes=nodes, yielding=yielding, forced=True)
    made.claim.moved = frozenset([held.running.job.id for held in moved])


def _shrink(memory: Memory, parts: list[Holding], waiting: Waiting) -> Resize:
    held = parts[0].part_of
    assert held is not None  # nosec B101 - said for the types alone
    kept = list(reversed(held.running.placement))
    for part in parts:
        kept.remove(part.running.placement[0])
    placement = tuple(reversed(kept))
    memory.reseat(held, placement, memory.now)
    return Resize(job=held.running.job.id, placement=placement, reason=f"It makes room for a job of queue {waiting.job.queue}.")


def _stop(memory: Memory, held: Holding, waiting: Waiting, *, moves: bool) -> Stop:
    job, old = held.running.job, held.running
    until = Moment(memory.now + memory.rules.grace_of(job))
    held.running = Running(job=job, placement=old.placement, started=old.started, checkpointed=old.checkpointed, stopping=until)
    memory.stopping[job.id] = held
    if moves:
        reason = "It moves to another host, so that a wider job gets this one whole."
    elif job.queue == waiting.job.queue:
        reason = "A job of higher standing in its queue takes its place."
    else:
        reason = f"Queue {waiting.job.queue} takes back a share it had lent."
    return Stop(job=job.id, reason=reason, for_job=waiting.job.id, until=until)
