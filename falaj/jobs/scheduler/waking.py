"""Who may be tried again: what came due, what was given back, and who lacked just that."""

import heapq
from collections.abc import Container

from falaj.base.clock import Moment
from falaj.jobs.scheduler.lines import Holding, Line, Lineup, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.ordering import starves_from
from falaj.jobs.scheduler.owing import may_be_owed
from falaj.jobs.scheduler.quotas import available


def wake(memory: Memory) -> bool:
    """What came due, what was given back, and whose standing changed since the last look; whether places may have come free."""
    while memory.alarms and memory.alarms[0][0] <= memory.now:
        _, what, name = heapq.heappop(memory.alarms)
        _ring(memory, what, name)
    while memory.changes and memory.changes[0][0] <= memory.now:
        waiting = memory.waiting.get(heapq.heappop(memory.changes)[1])
        if waiting is not None:
            memory.restand(waiting)
    given_back = bool(memory.floor.touched or memory.loosened)
    # Whom others may make room for comes first: who only lacked what was given back is not asked when others were quicker.
    if memory.owed:
        _wake_the_owed(memory)
    if given_back:
        _wake_those_who_lacked(memory)
    stirred, memory.stirred = memory.stirred or given_back, False
    return stirred


def _wake_those_who_lacked(memory: Memory) -> None:
    for line in list(memory.hopeful):
        head = line.head()
        if head is not None and _may_hope(memory, line, head):
            memory.release_line(line, "hope" if line.parked == "room" else "")
    for kind in list(memory.short_of_room):
        if any(memory.floor.has_place(node, kind.sample) for node in memory.floor.touched):
            for line in list(kind.lines):
                memory.release_line(line, "room")
    for tree in memory.loosened.values():
        for branch in tree.branches:
            lineup = memory.lineups.get(branch.name)
            if lineup is not None and lineup.branch is branch:
                _wake_for_quota(memory, lineup)
    memory.wake_behind()
    memory.loosened.clear()


def _ask_for_what_is_lent(memory: Memory, name: str) -> None:
    """One that began to borrow has had its minimum run: those of its tree may be owed that."""
    lineup = memory.lineups.get(name)
    if lineup is not None and lineup.branch is not None:
        lineup.branch.tree.asked = False
        memory.owed |= {branch.name: None for branch in lineup.branch.tree.branches if not branch.children}


def _wake_the_owed(memory: Memory) -> None:
    """A queue that used less may now be owed what it was not when its first asked."""
    owed, memory.owed = memory.owed, {}
    for name in owed:
        lineup = memory.lineups.get(name)
        if (
            lineup is None
            or lineup.queue is None
            or not lineup.queue.reclaim
            or lineup.branch is None
            or not lineup.branch.parent
        ):
            continue
        parked = [line for line in lineup.lines.values() if line.parked in ("room", "quota") and may_be_owed(line)]
        heads = [head for line in parked if (head := line.head()) is not None and not _is_served(memory, head)]
        first = min(heads, key=lineup.place, default=None)
        if first is not None and first.line is not None:
            memory.release_line(first.line)


def _is_served(memory: Memory, waiting: Waiting) -> bool:
    """Whether borrowers give back for it, or will as soon as they may."""
    claim = memory.claims.get(waiting.job.id)
    return claim is not None and (claim.forced or claim.owed)


def give_hope(memory: Memory, started: Holding) -> None:
    """Who waits for room and may stop one that starts behind it, or shrink it, looks again when more is given back."""
    job, own = started.running.job, started.lineup
    shrinks = job.id in memory.stretched
    if not shrinks and (own.queue is None or not own.queue.preempt):
        return
    lowest = 0 if own.by_length else 1  # how far above it those stand that may stop it
    for lineup in memory.lineups.values() if shrinks else (own,):
        for line in lineup.lines.values():
            head = line.head() if line.parked in ("room", "quota") and line not in memory.hopeful else None
            if head is not None and (shrinks or head.job.priority >= job.priority + lowest):
                memory.hopeful[line] = None


def _may_hope(memory: Memory, line: Line, head: Waiting) -> bool:
    """Whether what was given back may have made a set of victims sufficient that was not."""
    if line.parked == "quota":
        branch = line.lineup.branch
        return branch is not None and id(branch.tree) in memory.loosened
    return any(memory.floor.could_be_cleared(node, line, head.job.priority) for node in memory.floor.touched)


def _ring(memory: Memory, what: str, name: str) -> None:
    waiting = memory.waiting.get(name)
    if what == "held" and name in memory.held:
        memory.line_up(memory.held.pop(name))
    elif what == "owed":
        _ask_for_what_is_lent(memory, name)
    elif what == "first" and waiting is not None:
        memory.dirty[waiting.job.queue] = None
    elif what == "queue" and name in memory.lineups:
        memory.lineups[name].asks_again = False
        memory.unpark(memory.lineups[name], "room")
        memory.unpark(memory.lineups[name], "quota")
    elif what == "starving" and waiting is not None and not waiting.starving:
        from_then = starves_from(waiting.job, memory.rules, memory.lineup(waiting.job.queue).by_length)
        if from_then > memory.now:  # it has run since this was set, or its queue goes by another order
            heapq.heappush(memory.alarms, (from_then, what, name))
            return
        waiting.starving = True
        memory.starving[name] = None
        memory.stirred = True
    elif (
        what == "retry"
        and waiting is not None
        and waiting.line is not None
        and waiting.line.parked in ("room", "quota", "behind")
    ):
        memory.release_line(waiting.line)


def _wake_for_quota(memory: Memory, lineup: Lineup) -> None:
    branch = lineup.branch
    assert branch is not None  # nosec B101 - said for the types alone
    left: dict[int, int] = {}
    for line in list(lineup.lines.values()):
        if line.parked != "quota":
            continue
        for index, amount in line.demand:
            if index not in left:
                left[index] = available(branch, index)
            if amount * line.kind.least > left[index]:
                break
        else:
            memory.release_line(line, "quota")


def next_alarm(memory: Memory) -> Moment | None:
    while memory.alarms:
        at, what, name = memory.alarms[0]
        alive: dict[str, Container[str]] = {
            "held": memory.held,
            "grow": memory.elastic,
            "claim": memory.claims,
            "queue": memory.lineups,
            "owed": memory.lineups,
        }
        waits_on = alive.get(what, memory.waiting)
        if name in waits_on and not (what == "starving" and memory.waiting[name].starving):
            return Moment(max(at, memory.now))
        heapq.heappop(memory.alarms)
    return None
