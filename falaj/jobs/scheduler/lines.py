"""Who waits where: per queue, lines of jobs that are alike, each with its best in front.

Jobs of one line need the same, so when the first finds no place none of them does: the line is parked until what it lacked
changes. A decision thus touches lines, never all that wait.
"""

import heapq
from collections.abc import Iterator
from typing import Literal

from falaj.jobs.scheduler.checking import price, price_of
from falaj.jobs.scheduler.fairness import Account, levels
from falaj.jobs.scheduler.ordering import breadth, lift, next_step, service, step_above, width
from falaj.jobs.scheduler.quotas import Branch, Charge
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Queue, Rules, Running

Parked = Literal["", "room", "quota", "budget", "closed", "never", "behind"]
Woken = Literal["", "room", "quota", "hope"]  # what was given back that a line lacked; or victims may now be enough
Place = tuple[int, int, int, float, int, str]  # minus priority, levels of project and user, service to come, submitted, id
Standing = tuple[int, float, int, str]  # minus priority with what waiting adds, service to come, submitted, id


class Kind:
    """Jobs that need the same of the hosts: where there is no place for one there is none for the others."""

    __slots__ = ("key", "least", "lines", "obstacle", "sample", "uses")

    def __init__(self, key: tuple[object, ...], sample: Job) -> None:
        self.key, self.sample = key, sample
        self.uses = 0  # lines there are of it
        self.least = sample.least or sample.count
        self.lines: dict[Line, None] = {}  # those parked for want of room
        self.obstacle: str | None = None  # why even an idle cluster could not; None where nobody asked yet


def kind_of(job: Job) -> tuple[object, ...]:
    is_particular = job.shape.sharing == "time" or job.label or job.apart_from  # about jobs of its own project
    owner = job.project if is_particular else ""
    return (job.shape, job.count, job.least, job.zones, job.topology, job.apart_from, job.label, owner)


class Waiting:
    """One that waits. `standing` is its place among its like; a later one in the heap makes an earlier one stale."""

    __slots__ = ("job", "line", "standing", "starving")

    def __init__(self, job: Job, line: "Line") -> None:
        self.job = job
        self.line: Line | None = line
        self.standing: Standing = (0, 0.0, 0, "")
        self.starving = False


Entry = tuple[Standing, int, Waiting]


class Line:
    """Jobs of one kind in one queue, each user's best first."""

    __slots__ = (
        "_best",
        "_levels",
        "demand",
        "key",
        "kind",
        "lineup",
        "model_demand",
        "parked",
        "preemptible",
        "stamp",
        "users",
        "woken",
    )

    def __init__(self, lineup: "Lineup", kind: Kind, key: tuple[object, ...], *, preemptible: bool) -> None:
        self.lineup, self.kind, self.key, self.preemptible = lineup, kind, key, preemptible
        self.users: dict[tuple[str, str], list[Entry]] = {}
        self.parked: Parked = ""
        self.woken: Woken = ""  # where it may be tried for one reason only
        self.stamp = 0  # of its newest entry among the queue's ready lines
        self.demand: Charge = ()  # of one task
        self.model_demand = 0  # of GPUs of whichever model it gets, of one task; 0 where no quota speaks of models
        self._best: tuple[Standing, Waiting] | None = None
        self._levels: object = None

    def measure(self) -> None:
        """What one task takes of the resources that the queue's tree limits."""
        branch, shape = self.lineup.branch, self.kind.sample.shape
        self.demand, self.model_demand = (), 0
        if branch is None:
            return
        wants = {CPU: shape.cpu_milli, MEMORY: shape.memory_mib, IO: shape.io, GPU: shape.gpus * shape.gpu_milli}
        limited = branch.tree.resources
        self.demand = tuple([(limited[name], amount) for name, amount in wants.items() if amount > 0 and name in limited])
        self.model_demand = wants[GPU] if branch.tree.models else 0

    def push(self, waiting: Waiting, stamp: int) -> None:
        job = waiting.job
        heapq.heappush(self.users.setdefault((job.project, job.user), []), (waiting.standing, stamp, waiting))
        best = self._best
        if best is not None and best[1].standing is best[0] and self.lineup.place(waiting) < self.lineup.place(best[1]):
            self._best = waiting.standing, waiting

    def head(self) -> Waiting | None:
        best = self._best
        if best is not None and best[1].line is self and best[1].standing is best[0] and self._levels is self.lineup.levels:
            return best[1]
        self._best, self._levels = None, self.lineup.levels
        for user in list(self.users):
            first = _first_of(self.users[user], self)
            if first is None:
                del self.users[user]
            elif self._best is None or self.lineup.place(first) < self.lineup.place(self._best[1]):
                self._best = first.standing, first
        return self._best[1] if self._best is not None else None

    def first(self, most: int) -> list[Waiting]:
        """The best of it, without a look at the rest."""
        found: list[Waiting] = []
        taken: list[tuple[list[Entry], Entry]] = []
        tops = [
            (self.lineup.place(top), user) for user, heap in self.users.items() if (top := _first_of(heap, self)) is not None
        ]
        heapq.heapify(tops)
        while tops and len(found) < most:
            _, user = heapq.heappop(tops)
            heap = self.users[user]
            taken.append((heap, heapq.heappop(heap)))
            found.append(taken[-1][1][2])
            following = _first_of(heap, self)
            if following is not None:
                heapq.heappush(tops, (self.lineup.place(following), user))
        for heap, entry in taken:
            heapq.heappush(heap, entry)
        return found

    def all(self) -> Iterator[Waiting]:
        """For explaining and for standing anew."""
        for heap in self.users.values():
            for standing, _, waiting in heap:
                if waiting.line is self and waiting.standing is standing:
                    yield waiting


def _first_of(heap: list[Entry], line: Line) -> Waiting | None:
    while heap:
        standing, _, waiting = heap[0]
        if waiting.line is line and waiting.standing is standing:
            return waiting
        heapq.heappop(heap)
    return None


class Holding:
    """One that holds seats. `claim` is for whom it gives them back."""

    __slots__ = (
        *("_step", "_step_ends", "breadth", "charge", "claim", "core", "lineup", "made_way", "part_of", "rate", "running"),
        "sized",
    )

    def __init__(self, running: Running, lineup: "Lineup", charge: Charge) -> None:
        self.running, self.lineup, self.charge = running, lineup, charge
        self.rate = width(running.job, len(running.placement))
        self.sized = int(running.started)  # since when it has had this many seats
        self.claim = ""
        self.made_way: frozenset[str] = frozenset()  # who moved for it, and so may not outrank it
        # While victims are chosen, one may stand for some of another's seats: those beyond its least, or the `core` of it.
        self.part_of: Holding | None = None
        self.core = False
        self.breadth = breadth(running.job)
        self._step, self._step_ends = 0.0, -1

    def served(self, now: int) -> int:
        return self.running.job.served + max(0, now - self.running.started)

    def to_come(self, now: int) -> float:
        """As `ordering.service`, which between two steps need not be reckoned anew."""
        served, job = self.served(now), self.running.job
        if job.duration > served:
            return (job.duration - served) * self.breadth
        if now >= self._step_ends:
            self._step, self._step_ends = step_above(served * self.breadth), now + next_step(job, served)
        return self._step

    def jumps(self, now: int) -> int:
        """When what is to come jumps up if it runs on."""
        self.to_come(now)
        return max(self._step_ends, self.running.started + self.running.job.duration - self.running.job.served)

    def lost(self, now: int) -> float:
        """Work that would have to be done again if it were stopped now."""
        if self.running.job.saves:
            return 0
        safe = max(self.running.started, self.running.checkpointed)
        return max(0, now - safe) * self.rate


class Lineup:
    """A queue with all that waits and runs in it. `queue` is None for one that was removed while in use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: Queue | None = None
        self.branch: Branch | None = None
        self.lines: dict[tuple[object, ...], Line] = {}
        self.ready: list[tuple[Place, int, Line]] = []
        self.waiting = 0
        self.holdings: dict[int, dict[str, Holding]] = {}  # by priority, in the order of starting
        self.longest: dict[int, tuple[float, int]] = {}  # by priority: no running one has more to come than this, until when
        self.projects: dict[str, Account] = {}
        self.accrued = 0  # price of what ended since the queue's `spent` was told
        self.levels: tuple[dict[str, int], dict[str, dict[str, int]]] = ({}, {})
        self.asks_again = False  # whether lines were parked unasked, to be asked a while later
        self.unsorted = False  # whether one that started earlier was told later
        self._stamps = 0

    @property
    def by_length(self) -> bool:
        return self.queue is not None and self.queue.order == "shortest"

    def spent(self, now: int) -> int:
        """What its jobs cost: those that ended, and those that run, to their expected end or until now, where that is later."""
        running = [held.running for some in self.holdings.values() for held in some.values()]
        return self.accrued + sum([max(price(one.job), price_of(one.job, now - one.started)) for one in running])

    def stand(self, waiting: Waiting, rules: Rules, now: int) -> int | None:
        """Puts a job where it belongs in its line; returns when that changes."""
        job, line = waiting.job, waiting.line
        assert line is not None  # nosec B101 - said for the types alone
        lifted, change = lift(job, rules, self.by_length, now)
        measure = service(job, job.served) if self.by_length else 0.0
        waiting.standing = (-(job.priority + lifted), measure, int(job.submitted), job.id)
        self._stamps += 1
        line.push(waiting, self._stamps)
        return change

    def offer(self, line: Line) -> None:
        """Puts a line, by its first, among those that may be tried."""
        head = line.head()
        self._stamps += 1
        line.stamp = self._stamps
        if head is None:
            return
        line.parked = ""
        heapq.heappush(self.ready, (self.place(head), self._stamps, line))

    def place(self, waiting: Waiting) -> Place:
        """Where a job stands in its queue: by priority, then by what its project and its user have had, then by policy."""
        standing, job = waiting.standing, waiting.job
        by_project, by_user = self.levels
        of_user = by_user[job.project].get(job.user, 0) if job.project in by_user else 0
        return standing[0], by_project.get(job.project, 0), of_user, standing[1], standing[2], standing[3]

    def take_first(self) -> Line | None:
        """The best line that may be tried, taken off."""
        while self.ready:
            _, stamp, line = heapq.heappop(self.ready)
            if line.stamp == stamp and not line.parked and line.head() is not None:
                return line
        return None

    def first(self) -> Waiting | None:
        """Who of those that wait for room or quota stands before the others."""
        parked = [line for line in self.lines.values() if line.parked in ("room", "quota", "behind")]
        heads = [head for line in parked if (head := line.head()) is not None]
        return min(heads, key=self.place, default=None)

    def order_users(self, inflation: float) -> None:
        """Fair shares between projects, and users of each, as they are now; lines stand anew where they changed."""
        by_project = levels(self.projects, inflation) if len(self.projects) > 1 else {}
        by_user = {
            name: levels(account.users, inflation)
            for name, account in self.projects.items()
            if len(account.users) > 1 and account.waiting
        }
        if (by_project, by_user) == self.levels:
            return
        self.levels = by_project, by_user
        for line in [line for _, stamp, line in self.ready if line.stamp == stamp and not line.parked]:
            self.offer(line)

    def hold(self, held: Holding) -> None:
        job = held.running.job
        of_priority = self.holdings.setdefault(job.priority, {})
        if of_priority and next(reversed(of_priority.values())).running.started > held.running.started:
            self.unsorted = True
        of_priority[job.id] = held
        if job.priority in self.longest:
            now = int(held.running.started)
            most, until = self.longest[job.priority]
            self.longest[job.priority] = max(most, held.to_come(now)), min(until, held.jumps(now))

    def let_go(self, job: Job) -> None:
        of_priority = self.holdings[job.priority]
        del of_priority[job.id]
        if not of_priority:
            del self.holdings[job.priority]
            self.longest.pop(job.priority, None)

    def most_to_come(self, priority: int, now: int) -> tuple[float, int]:
        """What none of the running of a priority has more of to come, and until when that is so. Found anew only then."""
        known = self.longest.get(priority)
        if known is None or known[1] <= now:
            running = self.holdings[priority].values()
            most = max([held.to_come(now) for held in running])
            known = self.longest[priority] = most, min([held.jumps(now) for held in running])
        return known

    def sort_holdings(self) -> None:
        for priority, of_priority in self.holdings.items():
            started = sorted(of_priority.items(), key=lambda entry: (entry[1].running.started, entry[0]))
            self.holdings[priority] = dict(started)
        self.unsorted = False

    def account(self, project: str, user: str) -> tuple[Account, Account]:
        owner = self.projects.setdefault(project, Account())
        return owner, owner.users.setdefault(user, Account())
