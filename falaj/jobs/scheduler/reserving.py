"""Places in the future: when a job that waits for room will have it, and whether another would take it away.

Ends are what was declared, and where nothing was, as long again as a job has run: nobody knows better of jobs whose lengths
have a long tail.
"""

from collections.abc import Sequence
from typing import Final

from falaj.jobs.scheduler.claims import Claim
from falaj.jobs.scheduler.lines import Holding, Line, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.owing import allowance, borrows_for
from falaj.jobs.scheduler.quotas import Charge, charge, discharge
from falaj.jobs.scheduler.values import Job, Placement

SHORTEST_GUESS: Final = 600_000_000
SOON: Final = 1_000_000  # for one that should be over already


def expected_end(held: Holding, now: int) -> int:
    running = held.running
    if running.stopping is not None:
        return max(now + SOON, running.stopping)
    left = running.job.duration - held.served(now)
    if left <= 0:
        left = max(SHORTEST_GUESS, held.served(now))
    if running.job.timeout:
        left = min(left, running.started + running.job.timeout - now)
    return now + max(SOON, left)


def certain_end(job: Job, now: int) -> int | None:
    """By when a job that starts now is over, as it was declared; None where nothing was."""
    ends = [end for end in (job.duration - job.served, job.timeout) if end > 0]
    return now + min(ends) if ends else None


def reserve(memory: Memory, waiting: Waiting, tasks: int) -> Claim | None:
    """The earliest place and quota that running jobs will leave, if they end when they should, on hosts that are not kept for
    others."""
    now, line = memory.now, waiting.line
    assert line is not None  # nosec B101 - said for the types alone
    kept = {node for claim in must_keep(memory, waiting) for node in claim.nodes}
    leaving = sorted(memory.holdings.values(), key=lambda held: (expected_end(held, now), held.running.job.id))
    low, high = 1, len(leaving)
    placement: Placement | None = None
    needed = high + 1
    while low <= high:
        middle = (low + high) // 2
        gone = leaving[:middle]
        job = allowed_after(memory, line, waiting.job, tasks, gone)
        without = [held.running for held in gone]
        found = None if job is None else memory.floor.room.find(job, tasks, without=without, avoiding=kept)
        if found is None:
            low = middle + 1
        else:
            placement, needed, high = found, middle, middle - 1
    if placement is None:
        return None
    return Claim(
        waiting,
        tasks,
        at=expected_end(leaving[needed - 1], now),
        nodes=frozenset([seat.node for seat in placement]),
        yielding={held.running.job.id: held for held in leaving[:needed]},
        forced=False,
    )


def allowed_after(memory: Memory, line: Line, job: Job, tasks: int, leaving: Sequence[Holding]) -> Job | None:
    """The job, kept to the GPU models of which there is quota when these have given back; None where that is not enough."""
    gone = [(held.lineup.branch, held.charge) for held in leaving if held.lineup.branch is not None and held.charge]
    for branch, charged in gone:
        discharge(branch, charged)
    fits = all(allowance(line, index) >= amount * tasks for index, amount in line.demand)
    found = memory.narrowed(line, job, tasks) if fits else None
    for branch, charged in reversed(gone):
        charge(branch, charged)
    return found


def outranks(waiting: Waiting, claim: Claim) -> bool:
    """Whether one may take a place that is kept for another: never what is forced free. What a queue is owed goes before what
    another one borrows; else nobody takes it from one that starves, and who ranks before it may."""
    line, owner = waiting.line, claim.waiting.line
    if claim.forced or line is None or owner is None:
        return False
    if line.lineup is not owner.lineup and borrows_for(line) != borrows_for(owner):
        return borrows_for(owner)
    if claim.waiting.starving:
        return False
    if waiting.starving:
        return True
    if line.lineup is owner.lineup:
        return waiting.standing < claim.waiting.standing
    return waiting.standing[0] < claim.waiting.standing[0]


def must_keep(memory: Memory, waiting: Waiting) -> list[Claim]:
    """Claims that a job has to respect. Who has one itself respects those made before it, and what is forced free for others
    unless its own is too."""
    own = memory.claims.get(waiting.job.id)
    kept: list[Claim] = []
    before = True
    for claim in memory.claims.values():
        if claim is own:
            before = False
        elif (before and not outranks(waiting, claim)) or (claim.forced and not (own is not None and own.forced)):
            kept.append(claim)
    return kept


def keeps(memory: Memory, claim: Claim, job: Job, placement: Placement, line: Line, taken: Charge) -> bool:
    """Whether a claim still holds if this job starts there now."""
    end = certain_end(job, memory.now)
    if end is not None and end <= claim.at:
        return True
    owner = claim.waiting.line
    assert owner is not None  # nosec B101 - said for the types alone
    return _keeps_quota(memory, claim, owner, line, taken) and _keeps_room(memory, claim, job, placement)


def _keeps_quota(memory: Memory, claim: Claim, owner: Line, line: Line, taken: Charge) -> bool:
    mine, other = owner.lineup.branch, line.lineup.branch
    if mine is None or other is None or mine.tree is not other.tree or not owner.demand:
        return True
    charge(other, taken)
    left = allowed_after(memory, owner, claim.waiting.job, claim.tasks, list(claim.yielding.values()))
    discharge(other, taken)
    return left is not None


def _keeps_room(memory: Memory, claim: Claim, job: Job, placement: Placement) -> bool:
    if not any(seat.node in claim.nodes for seat in placement):
        return True
    elsewhere = {node for other in memory.claims.values() if other is not claim for node in other.nodes - claim.nodes}
    memory.floor.room.take(job, placement)
    leaving = [held.running for held in claim.yielding.values()]
    found = memory.floor.room.find(claim.waiting.job, claim.tasks, without=leaving, avoiding=elsewhere)
    memory.floor.room.give(job, placement)
    return found is not None
