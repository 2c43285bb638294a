"""Making a place for a job that has none: elastic jobs shrink first, then the fewest sufficient victims are stopped."""

from collections.abc import Sequence

from falaj.base.clock import Moment
from falaj.jobs.scheduler.lines import Holding, Line, Waiting
from falaj.jobs.scheduler.memory import Claim, Memory
from falaj.jobs.scheduler.preempting import (
    MOST_SEARCHES,
    MOST_VICTIMS,
    Rights,
    by_host,
    fewest,
    largest_first,
    preference,
    still_borrowing,
)
from falaj.jobs.scheduler.quotas import available, charge, discharge
from falaj.jobs.scheduler.values import Placement, Resize, Running, Stop


class Made:
    """What was done for a job. `claim` is its place; without one, `later` is when it may be worth another try."""

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.resizes: list[Resize] = []
        self.claim: Claim | None = None
        self.later: int | None = None
        self.hopeful = False  # whether there were victims, only not enough of them


def make_room(rights: Rights, line: Line, waiting: Waiting) -> Made:
    memory, made = rights.memory, Made()
    if rights.searches >= MOST_SEARCHES:
        made.later = memory.now + max(1, memory.rules.least_run)
        return made
    tasks = line.kind.least
    demand = tuple([(index, amount * tasks) for index, amount in line.demand])
    found = rights.candidates(waiting, demand)
    already = [held for held in memory.stopping.values() if not held.claim]
    options = _options(memory, line, waiting, found.reclaimed, found.outranked)
    made.later = found.later
    if not options and not already:
        return made
    made.hopeful = True
    rights.searches += 1
    search = _Search(memory, line, waiting, tasks)
    orders = _orders(memory, waiting, line, tasks, options)
    picked = fewest(orders, search.enough, already)
    if picked is None:
        return made
    search.enough([*already, *picked])  # for the seats, which those tried last need not be
    _carry_out(memory, waiting, tasks, picked, already, search.seats, made)
    return made


class _Search:
    """Whether a job would have its place if these had given back theirs; remembers the last place found."""

    def __init__(self, memory: Memory, line: Line, waiting: Waiting, tasks: int) -> None:
        self.memory, self.line, self.waiting, self.tasks = memory, line, waiting, tasks
        self.seats: Placement = ()

    def enough(self, gone: Sequence[Holding]) -> bool:
        branch = self.line.lineup.branch
        leaving = [held for held in gone if held.lineup.branch is not None]
        for held in leaving:
            assert held.lineup.branch is not None
            discharge(held.lineup.branch, held.charge)
        fits = branch is None or all(available(branch, index) >= amount * self.tasks for index, amount in self.line.demand)
        job = self.memory.narrowed(self.line, self.waiting.job, self.tasks) if fits else None
        for held in reversed(leaving):
            assert held.lineup.branch is not None
            charge(held.lineup.branch, held.charge)
        placement = self.memory.room.find(job, self.tasks, without=[held.running for held in gone]) if job is not None else None
        if placement is not None:
            self.seats = placement
        return placement is not None


def _options(memory: Memory, line: Line, waiting: Waiting, reclaimed: list[Holding], outranked: list[Holding]) -> list[Holding]:
    """In order of preference: seats that elastic jobs can do without, then victims, less those whose going is not owed."""
    now, by_length = memory.now, line.lineup.by_length
    reclaimed.sort(key=lambda held: preference(now, held, True, by_length))
    outranked.sort(key=lambda held: preference(now, held, False, by_length))
    branch = line.lineup.branch
    victims = [*(still_borrowing(reclaimed, branch) if branch is not None else ()), *outranked]
    spare_seats = _spare_seats(memory, line, waiting)
    shrinking = {id(part.part_of) for part in spare_seats}
    rest = [
        _part(memory, held, held.running.placement[: held.running.job.least]) if id(held) in shrinking else held
        for held in victims
    ]
    return [*spare_seats, *rest][:MOST_VICTIMS]


def _spare_seats(memory: Memory, line: Line, waiting: Waiting) -> list[Holding]:
    """Seats that elastic jobs can do without: of its own queue's up to its priority, and of others' if it does not borrow."""
    branch, tasks = line.lineup.branch, line.kind.least
    borrows = branch is not None and any(
        branch.used[index] + amount * tasks > branch.subtree[index] for index, amount in line.demand
    )
    parts: list[Holding] = []
    for held in memory.stretched.values():
        job = held.running.job
        mine = held.lineup is line.lineup
        if held.running.stopping is not None or held.sized + memory.rules.least_run > memory.now:
            continue
        if (mine and job.priority <= waiting.job.priority) or (not mine and not borrows):
            parts.extend([_part(memory, held, (seat,)) for seat in reversed(held.running.placement[job.least :])])
    return parts


def _part(memory: Memory, held: Holding, seats: Placement) -> Holding:
    running = Running(
        job=held.running.job, placement=seats, started=held.running.started, checkpointed=held.running.checkpointed
    )
    part = Holding(running, held.lineup, memory.charge_of(held.lineup, running.job.shape, seats))
    part.part_of = held
    return part


def _orders(memory: Memory, waiting: Waiting, line: Line, tasks: int, options: list[Holding]) -> list[list[Holding]]:
    """Ways to go through the victims: as preferred, the largest first, and host by host. Shrinking comes first in all."""
    seats = [held for held in options if held.part_of is not None and len(held.running.placement) == 1]
    stopped = [held for held in options if held not in seats] if seats else options
    orders = [[*seats, *stopped]]
    if len(stopped) > 1 and (line.demand or len(memory.nodes) == 1):
        orders.append([*seats, *largest_first(stopped)])
    if len(memory.nodes) > 1 and len(options) > 1:
        orders.insert(0, [*by_host(memory, waiting, tasks, seats), *by_host(memory, waiting, tasks, stopped)])
    return orders


def _carry_out(
    memory: Memory, waiting: Waiting, tasks: int, picked: list[Holding], already: list[Holding], seats: Placement, made: Made
) -> None:
    stopped: dict[str, Holding] = {}
    given: dict[str, list[Holding]] = {}
    for held in picked:
        whole = held.part_of or held
        if held.part_of is not None and held.running.placement != whole.running.placement[: whole.running.job.least]:
            given.setdefault(whole.running.job.id, []).append(held)
        else:
            stopped[whole.running.job.id] = whole
    for name, parts in given.items():
        if name not in stopped:
            made.resizes.append(_shrink(memory, parts, waiting))
    for held in stopped.values():
        made.stops.append(_stop(memory, held, waiting))
    yielding = stopped | {held.running.job.id: held for held in already}
    at = max([int(held.running.stopping or memory.now) for held in yielding.values()], default=memory.now)
    nodes = frozenset([seat.node for seat in seats])
    made.claim = Claim(waiting, tasks, at=at, nodes=nodes, yielding=yielding, forced=True)


def _shrink(memory: Memory, parts: list[Holding], waiting: Waiting) -> Resize:
    held = parts[0].part_of
    assert held is not None
    gone = [part.running.placement[0] for part in parts]
    kept = list(held.running.placement)
    for seat in gone:
        kept.reverse()
        kept.remove(seat)
        kept.reverse()
    memory.reseat(held, tuple(kept), memory.now)
    return Resize(job=held.running.job.id, placement=tuple(kept), reason=f"makes room for a job of queue {waiting.job.queue}")


def _stop(memory: Memory, held: Holding, waiting: Waiting) -> Stop:
    job = held.running.job
    until = Moment(memory.now + job.grace)
    old = held.running
    held.running = Running(job=job, placement=old.placement, started=old.started, checkpointed=old.checkpointed, stopping=until)
    memory.stopping[job.id] = held
    if held.lineup is waiting.line.lineup if waiting.line else False:
        reason = "a job of higher standing in its queue takes its place"
    else:
        reason = f"queue {waiting.job.queue} takes back a share it had lent"
    return Stop(job=job.id, reason=reason, for_job=waiting.job.id, until=until)
