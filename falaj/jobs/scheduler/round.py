"""One decision, in numbered steps, over the scheduler's memory. It leaves the memory as if its plan were carried out."""

import heapq
from collections.abc import Iterable
from typing import Final

from falaj.base.clock import Moment
from falaj.jobs.scheduler.checking import price
from falaj.jobs.scheduler.claims import Claim
from falaj.jobs.scheduler.explaining import (
    budget_sentence,
    claim_sentence,
    closed_sentence,
    never,
    never_by_quota,
    quota_sentence,
    room_sentence,
    waits,
)
from falaj.jobs.scheduler.fairness import shares
from falaj.jobs.scheduler.lines import Line, Lineup, Parked, Waiting
from falaj.jobs.scheduler.making_room import Made, make_room
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.owing import allowance, borrows_for
from falaj.jobs.scheduler.preempting import Rights
from falaj.jobs.scheduler.reserving import certain_end, keeps, must_keep, outranks, reserve
from falaj.jobs.scheduler.resizing import grow, most_seats
from falaj.jobs.scheduler.values import Placement, Plan, Reserve, Resize, Running, Start, Stop, Wait
from falaj.jobs.scheduler.waking import give_hope, next_alarm, wake
from falaj.jobs.scheduler.wording import sentence

Rank = tuple[object, ...]
MOST_PASSES: Final = 4
MOST_ASKING: Final = 8  # lines of a queue that are asked in one round though others of their kind found no place


class Round:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.now = memory.now
        self.starts: list[Start] = []
        self.stops: list[Stop] = []
        self.resizes: list[Resize] = []
        self.waits: list[Wait] = []
        self.rights = Rights(memory)
        self.looked: dict[str, int] = {}
        self.reserved = self.stirred = False
        self.reserved_for: set[str] = set()  # queues whose first was asked whether it holds a place
        self.passed: dict[str, Waiting | None] = {}  # by queue: the first of those that found no place
        self.touched: set[str] = set()

    def run(self) -> Plan:
        memory = self.memory
        # 1 Heads: whoever may have become possible stands among the ready again.
        self.stirred = wake(memory)
        self.touched, memory.floor.touched = memory.floor.touched, set()
        # 2 Snapshot: the memory itself is one, and nothing changes it while this runs.
        self._settle_claims()
        self._try_starving()
        tried: dict[str, None] = {}
        for _ in range(MOST_PASSES):
            dirty, memory.dirty = memory.dirty, {}
            if not dirty:
                break
            self._pass(dirty)
            tried |= dirty
        for name in tried:
            if name in memory.lineups:
                self._reserve_for_first(memory.lineups[name])
        if not memory.waiting:
            self.resizes.extend(grow(memory))
        return self._plan()

    def _pass(self, dirty: Iterable[str]) -> None:
        """Once through all that may be tried. What is given up on the way may let others be tried, so there may be another."""
        memory = self.memory
        # 3 Nominate and 4 order: the best of every queue, by who is owed, who has less, who is more urgent, who came first.
        nominated: list[tuple[Rank, str]] = []
        lineups: dict[str, tuple[Lineup, Line | None]] = {}
        for name in dirty:
            lineup = memory.lineups.get(name)
            if lineup is not None:
                self._order_within(lineup)
                self._nominate(lineup, lineups, nominated)
        while nominated:
            rank, name = heapq.heappop(nominated)
            lineup, line = lineups[name]
            head = line.head() if line is not None else None
            if self._first_before(lineup, head) is not None:
                self.reserved_for.add(name)
                self._reserve_for_first(lineup)
            if line is not None and head is not None:
                now_ranked = self._rank(line, head)
                if nominated and now_ranked > rank and (now_ranked, name) > nominated[0]:
                    heapq.heappush(nominated, (now_ranked, name))
                    continue
                # 5 Admit, 6 place, 7 preempt, 8 requeue: it starts, its place is made, or its line is parked.
                lacks = self._still_lacks(line)
                if lacks:
                    self._park_again(line, head, lacks)
                else:
                    self._admit(line, head)
            del lineups[name]
            self._nominate(lineup, lineups, nominated)

    def _order_within(self, lineup: Lineup) -> None:
        if lineup.unsorted:
            lineup.sort_holdings()
        if len(lineup.projects) > 1 or any(len(account.users) > 1 for account in lineup.projects.values()):
            lineup.order_users(self.memory.decay.at(self.now))

    def _nominate(
        self, lineup: Lineup, lineups: dict[str, tuple[Lineup, Line | None]], nominated: list[tuple[Rank, str]]
    ) -> None:
        """The queue's best line, in the turn of its first where that is to hold a place before. Behind a few that found no
        place, those whose like found none are not even asked."""
        if self.looked.get(lineup.name, 0) > self.memory.rules.look:
            return
        line = lineup.take_first()
        while line is not None and (lacks := self._still_lacks(line)):
            head = line.head()
            self._park_again(line, head, lacks)
            if lacks == "never" and head is not None:
                word, resource, words = never(self.memory, line)
                self._wait(line, head, word, words, resource)
            line = lineup.take_first()
        head = line.head() if line is not None else None
        turn = self._first_before(lineup, head) or head
        if turn is not None and turn.line is not None:
            lineups[lineup.name] = lineup, line
            heapq.heappush(nominated, (self._rank(turn.line, turn), lineup.name))

    def _park_again(self, line: Line, head: Waiting | None, lacks: Parked) -> None:
        """One that need not be asked; it may be the first of its queue again."""
        self.memory.park(line, lacks)
        first = self.passed.get(line.lineup.name)
        if head is not None and (first is None or line.lineup.place(head) < line.lineup.place(first)):
            self.passed.pop(line.lineup.name, None)

    def _first_before(self, lineup: Lineup, head: Waiting | None) -> Waiting | None:
        """The queue's first, where it need not be asked again but is to hold a place before one behind it is tried."""
        name, memory = lineup.name, self.memory
        if name in self.reserved_for or lineup.by_length or not memory.rules.reservations:
            return None
        if name not in self.passed:
            self.passed[name] = lineup.first()
        first = self.passed[name]
        if first is None or first.line is None or first.job.id in memory.claims or self._holds_from(first) > self.now:
            return None
        return first if head is None or lineup.place(first) < lineup.place(head) else None

    def _still_lacks(self, line: Line) -> Parked:
        """What a line was woken for, if others were quicker; or what its like found none of, if enough of its queue asked."""
        if not line.woken and never_by_quota(line) is not None:
            return "never"
        if line.woken == "room":
            return "" if any(self.memory.floor.has_place(node, line.kind.sample) for node in self.touched) else "room"
        if line.woken == "quota":
            return "quota" if self.allowed(line) < line.kind.least else ""
        if self.looked.get(line.lineup.name, 0) < MOST_ASKING:
            return ""
        lacks: Parked = "quota" if self.allowed(line) < line.kind.least else "room" if line.kind.lines else ""
        if lacks and not line.lineup.asks_again:
            line.lineup.asks_again = True
            then = self.now + max(1, self.memory.rules.least_run)
            heapq.heappush(self.memory.alarms, (then, "queue", line.lineup.name))
        return lacks

    def _rank(self, line: Line, head: Waiting) -> Rank:
        """Who is within its own share comes first; among borrowers, who borrows least by weight; then urgency, then age."""
        branch = line.lineup.branch
        borrowing: tuple[float, ...] = ()
        if branch is not None and borrows_for(line):
            borrowing = shares(branch, self.memory.decay.at(self.now))
        return (bool(borrowing), borrowing, head.standing[0], head.standing[2], head.job.id)

    # 5 Admit

    def _admit(self, line: Line, waiting: Waiting) -> None:
        memory, job = self.memory, waiting.job
        if self._closed(line, waiting):
            return
        tasks, least = self.allowed(line), line.kind.least
        claim = memory.claims.get(job.id)
        placed: Placement | str = "quota"
        if tasks >= least:
            placed = self._placed(line, waiting, tasks)
            if isinstance(placed, tuple):
                self._start(line, waiting, placed, "after a reclaim" if claim is not None and claim.forced else "")
                return
            if placed == "behind" and (borrows_for(line) or not self._reclaim(line, waiting)):
                self._backfill(line, waiting)
            if placed == "behind":
                return
        if claim is not None and claim.forced:
            memory.park(line, "quota" if placed == "quota" else "room")
            self._wait(line, waiting, "room", claim_sentence(claim))
            return
        if self._impossible(line, waiting):
            return
        self._make_room(line, waiting, has_quota=placed != "quota")

    def _closed(self, line: Line, waiting: Waiting) -> bool:
        queue = line.lineup.queue
        if queue is None or not queue.open:
            self.memory.park(line, "closed")
            self._wait(line, waiting, "queue-closed", closed_sentence(line))
            return True
        if queue.budget and waiting.job.price_per_hour:
            cost = price(waiting.job)
            spent = queue.spent + line.lineup.spent(self.now)
            if spent + cost > queue.budget:
                self.memory.park(line, "budget")
                self._wait(line, waiting, "budget", budget_sentence(queue, spent, cost))
                return True
        return False

    def allowed(self, line: Line) -> int:
        """How many of a job's tasks its queue's quota allows now."""
        branch, most = line.lineup.branch, line.kind.sample.count
        if branch is None:
            return most
        for index, amount in line.demand:
            left = allowance(line, index)
            if amount * most > left:
                most = left // amount
                if most <= 0:
                    return 0
        return most

    def _impossible(self, line: Line, waiting: Waiting) -> bool:
        """No host, idle or not, could take it: nothing is stopped or reserved for it."""
        kind = line.kind
        if kind.obstacle is None:
            kind.obstacle = self.memory.floor.room.could_ever(kind.sample, kind.least)
        if not kind.obstacle:
            return False
        self.memory.park(line, "never")
        word, _, words = never(self.memory, line)
        self._wait(line, waiting, word, words)
        return True

    # 6 Place

    def _placed(self, line: Line, waiting: Waiting, tasks: int, *, anew: bool = False) -> Placement | str:
        """Seats for as many tasks as there is room for; else `quota`, `room`, or `behind` where a reserved start stands."""
        memory, least = self.memory, line.kind.least
        job = memory.narrowed(line, waiting.job, tasks)
        if job is None:
            return "quota"
        if line.kind.lines and job is waiting.job and not anew:
            return "room"  # one of its kind found none, and nothing was given back since
        placement = most_seats(memory.floor.room, job, least, tasks)
        if placement is None:
            return "room"
        if not memory.claims or self._harmless(line, waiting, placement):
            return placement
        kept = {node for claim in must_keep(memory, waiting) for node in claim.nodes}
        placement = memory.floor.room.find(job, len(placement), avoiding=kept)
        if placement is not None and self._harmless(line, waiting, placement):
            return placement
        return "behind"

    def _harmless(self, line: Line, waiting: Waiting, placement: Placement) -> bool:
        """Whether all claims still hold that this one must respect."""
        taken = self.memory.charge_of(line.lineup, waiting.job.shape, placement)
        claims = must_keep(self.memory, waiting)
        return all(keeps(self.memory, claim, waiting.job, placement, line, taken) for claim in claims)

    def _backfill(self, line: Line, first: Waiting) -> None:
        """The first would delay a reserved start; one behind it that is over by then would not."""
        soonest = max([claim.at for claim in self.memory.claims.values()])
        for waiting in line.first(self.memory.rules.look)[1:]:
            end = certain_end(waiting.job, self.now)
            if end is not None and end <= soonest:
                placed = self._placed(line, waiting, self.allowed(line))
                if isinstance(placed, tuple):
                    self._start(line, waiting, placed, "without delaying a reserved start")
                    return
        self.memory.park(line, "behind")
        self._wait(line, first, "order", "there is room, but it would delay a job whose start is reserved")

    def _start(self, line: Line, waiting: Waiting, placement: Placement, how: str) -> None:
        memory, job = self.memory, waiting.job
        lineup = line.lineup
        taken = memory.charge_of(lineup, job.shape, placement)
        branch = lineup.branch
        borrowed = branch is not None and any(branch.used[index] + amount > branch.subtree[index] for index, amount in taken)
        claim = memory.claims.get(job.id)
        memory.leave_line(waiting)
        held = memory.hold(Running(job=job, placement=placement, started=Moment(self.now)))
        if claim is not None:
            held.made_way = claim.moved
        give_hope(memory, held)
        if borrowed and branch is not None and not branch.tree.asked:
            branch.tree.asked = True
            heapq.heappush(memory.alarms, (self.now + max(1, memory.rules.least_run), "owed", lineup.name))
        reason = (
            "with a share that others lend" if borrowed else "within the queue's own share" if taken else "where there is room"
        )
        words = f"it starts {how}, {reason}" if how else f"it starts {reason}"
        self.starts.append(Start(job=job.id, placement=placement, reason=sentence(words), borrowed=borrowed))

    # 7 Preempt

    def _make_room(self, line: Line, waiting: Waiting, *, has_quota: bool) -> None:
        memory = self.memory
        made = self._ask(line, waiting, has_quota=has_quota)
        self.resizes.extend(made.resizes)
        if made.stops:
            self._claim(waiting, made.claim)
            self.stops.extend(made.stops)
        if made.claim is not None:
            if not made.stops and made.claim.yielding:
                self._claim(waiting, made.claim)
            elif not made.stops:
                placed = self._placed(line, waiting, line.kind.least, anew=True)
                if isinstance(placed, tuple):
                    self._start(line, waiting, placed, "as others made room")
                    return
            memory.park(line, "room" if has_quota else "quota")
            self._wait(line, waiting, "room" if has_quota else "quota", claim_sentence(made.claim))
            return
        if made.kept is not None:
            self._claim(waiting, made.kept)
        if made.later is not None:
            heapq.heappush(memory.alarms, (made.later, "retry", waiting.job.id))
        self._requeue(line, waiting, has_quota=has_quota)
        if made.hopeful:
            memory.hopeful[line] = None

    def _ask(self, line: Line, waiting: Waiting, *, has_quota: bool) -> Made:
        first = not self.looked.get(line.lineup.name)
        on_hosts = self.touched if line.woken == "hope" and has_quota else None
        return make_room(self.rights, line, waiting, has_quota=has_quota, first=first, on_hosts=on_hosts)

    def _reclaim(self, line: Line, waiting: Waiting) -> bool:
        """What a queue is owed need not wait behind a reserved start if others borrow."""
        made = self._ask(line, waiting, has_quota=True)
        if made.stops or made.resizes:
            self.resizes.extend(made.resizes)
            self.stops.extend(made.stops)
            self._claim(waiting, made.claim)
            self.memory.park(line, "room")
            self._wait(line, waiting, "room", claim_sentence(self.memory.claims[waiting.job.id]))
        return waiting.job.id in self.memory.claims

    def _claim(self, waiting: Waiting, claim: Claim | None) -> None:
        assert claim is not None  # nosec B101 - said for the types alone
        self.memory.unclaim(waiting.job.id)
        self.memory.claims[waiting.job.id] = claim
        self.reserved = True
        if claim.forced:
            for held in claim.yielding.values():
                held.claim = waiting.job.id
            self.memory.owed[waiting.job.queue] = None
        heapq.heappush(self.memory.alarms, (claim.at, "claim", waiting.job.id))

    # 8 Requeue

    def _requeue(self, line: Line, waiting: Waiting, *, has_quota: bool) -> None:
        memory, name = self.memory, line.lineup.name
        narrow = line.model_demand > 0
        memory.park(line, "quota" if not has_quota else "behind" if narrow else "room")
        if waiting.starving:
            self._reserve(line, waiting)
        if name not in self.reserved_for:  # before anybody behind it is tried
            self.reserved_for.add(name)
            self._reserve_for_first(line.lineup)
        resource = ""
        if has_quota:
            kind, words = room_sentence(memory, waiting.job, line.kind.least)
        else:
            kind, (resource, words) = "quota", quota_sentence(line, line.kind.least)
        claim = memory.claims.get(waiting.job.id)
        self._wait(line, waiting, kind, f"{words}; {claim_sentence(claim)}" if claim else words, resource)

    def _reserve_for_first(self, lineup: Lineup) -> None:
        """For the first of a queue that waits, once it has waited long enough to be lifted. Where a queue goes by length,
        shorter ones pass it by intent."""
        first = lineup.first() if not lineup.by_length and lineup.queue is not None else None
        if first is None or first.line is None or first.job.id in self.memory.claims:
            return
        from_then = self._holds_from(first)
        if from_then <= self.now:
            self._reserve(first.line, first)
        else:
            heapq.heappush(self.memory.alarms, (from_then, "first", first.job.id))

    def _holds_from(self, first: Waiting) -> int:
        return first.job.submitted + first.job.served + self.memory.rules.aging

    def _reserve(self, line: Line, waiting: Waiting) -> None:
        memory, job = self.memory, waiting.job
        if job.id in memory.claims or not memory.rules.reservations:
            return
        kept = [claim for claim in memory.claims.values() if not claim.forced and not claim.owed]
        if len(kept) >= memory.rules.reservations:
            least = next((claim for claim in kept if waiting.starving and not claim.waiting.starving), None)
            if least is None:
                return
            memory.unclaim(least.waiting.job.id)
        claim = reserve(memory, waiting, line.kind.least)
        if claim is None:
            return
        for weaker in [other for other in kept if other.nodes & claim.nodes and outranks(waiting, other)]:
            memory.unclaim(weaker.waiting.job.id)
        self._claim(waiting, claim)

    def _wait(self, line: Line, waiting: Waiting, kind: str, words: str, resource: str = "") -> None:
        name = line.lineup.name
        behind = self.looked.get(name, 0)
        self.looked[name] = behind + 1
        self.waits.append(waits(waiting.job.id, kind, words, resource=resource, behind=behind))

    # Places in the future

    def _settle_claims(self) -> None:
        """Whose place is ready takes it; whose place did not come is looked at like any other."""
        memory = self.memory
        for name, claim in list(memory.claims.items()):
            if memory.claims.get(name) is not claim or (claim.forced and claim.yielding and claim.at > self.now):
                continue
            line = claim.waiting.line
            assert line is not None  # nosec B101 - said for the types alone
            due = claim.at <= self.now or not claim.yielding
            if not due and not self.stirred:
                continue
            tasks = min(claim.waiting.job.count, self.allowed(line))
            placed = self._placed(line, claim.waiting, tasks, anew=True) if tasks >= line.kind.least else ""
            if isinstance(placed, tuple):
                self._start(line, claim.waiting, placed, "after a reclaim" if claim.forced else "at its reserved time")
            elif due and not (claim.forced and claim.yielding):
                memory.unclaim(name)
                memory.release_line(line)

    def _try_starving(self) -> None:
        """Those that waited beyond the bound, the longest first, before anybody else, as many as there are reservations."""
        memory = self.memory
        if not self.stirred or not memory.starving:
            return
        memory.shielded = {name: until for name, until in memory.shielded.items() if until > self.now}
        free = max(1, memory.rules.reservations) - len(memory.shielded)
        for name in list(memory.starving)[: max(0, free)]:
            waiting = memory.waiting.get(name)  # one before it may have let this one pass
            line = waiting.line if waiting is not None else None
            if waiting is None or line is None or name in memory.claims or line.parked in ("closed", "never", "budget"):
                continue
            ready = not line.parked
            self._admit(line, waiting)
            if ready and waiting.line is line and line.head() is not waiting:
                memory.release_line(line)

    def _plan(self) -> Plan:
        memory = self.memory
        acted = bool(self.starts or self.stops or self.resizes or self.reserved)
        reserves: tuple[Reserve, ...] = ()
        if acted:
            reserves = tuple(
                Reserve(job=name, at=Moment(claim.at), nodes=tuple(sorted(claim.nodes)))
                for name, claim in memory.claims.items()
            )
        return Plan(
            at=Moment(self.now),
            starts=tuple(self.starts),
            stops=tuple(self.stops),
            resizes=tuple(self.resizes),
            reserves=reserves,
            waits=tuple(self.waits),
            next=next_alarm(memory),
        )
