"""All that the scheduler remembers between two decisions, kept true as things happen; it decides nothing.

Every change notes what may have become possible by it: hosts on which something was given back, trees in which quota was. The
next round wakes those who lacked just that.
"""

import heapq
from collections.abc import Iterable
from dataclasses import replace

from falaj.base.clock import Moment
from falaj.base.errors import Conflict
from falaj.jobs.scheduler.checking import check, price_of
from falaj.jobs.scheduler.claims import Claim
from falaj.jobs.scheduler.fairness import Decay, share
from falaj.jobs.scheduler.floor import Floor
from falaj.jobs.scheduler.lines import Holding, Kind, Line, Lineup, Parked, Waiting, Woken, kind_of
from falaj.jobs.scheduler.ordering import next_step, starves_from, width
from falaj.jobs.scheduler.owing import allowance
from falaj.jobs.scheduler.quotas import Branch, Charge, Tree, available, charge, discharge, plant, share_of
from falaj.jobs.scheduler.values import (
    CARD,
    CPU,
    GPU,
    IO,
    MEMORY,
    Cohort,
    Job,
    Node,
    Placement,
    Queue,
    Rules,
    Running,
    Shape,
)


class Memory:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.now = 0
        self.floor = Floor()
        self.decay = Decay(rules.half_life)
        self.lineups: dict[str, Lineup] = {}
        self.kinds: dict[tuple[object, ...], Kind] = {}
        self.waiting: dict[str, Waiting] = {}
        self.held: dict[str, Job] = {}  # until their `not_before`
        self.holdings: dict[str, Holding] = {}
        self.claims: dict[str, Claim] = {}
        self.starving: dict[str, None] = {}  # the longest first
        self.shielded: dict[str, int] = {}  # of those that starved and run, until when nobody of their queue outranks them
        self.elastic: dict[str, Holding] = {}  # those with fewer seats than they would like
        self.stretched: dict[str, Holding] = {}  # those with more seats than they need at least
        self.dirty: dict[str, None] = {}  # queues with lines to try
        self.loosened: dict[int, Tree] = {}  # trees in which quota was
        self.owed: dict[str, None] = {}  # queues that came to use less, and may be owed what others borrow
        self.behind: dict[Line, None] = {}  # parked because they would delay a reserved start
        self.short_of_room: dict[Kind, None] = {}
        self.changes: list[tuple[int, str]] = []  # when a waiting job's standing changes
        self.alarms: list[tuple[int, str, str]] = []  # when to look again, at what
        self.stirred = False  # whether places in the future are to be looked at again
        self.stopping: dict[str, Holding] = {}
        self.hopeful: dict[Line, None] = {}  # parked, but there were victims, too few: tried when anything is given back

    def advance(self, now: int) -> None:
        """A clock that went back is taken to stand still."""
        self.now = max(self.now, int(now))
        if self.decay.stale(self.now):
            self.rebase(self.now)

    # Hosts

    def put_node(self, node: Node) -> None:
        self.floor.put(node)
        self._forget_obstacles()

    def drop_node(self, name: str) -> None:
        if name not in self.floor.nodes:
            return
        if self.floor.there.get(name):
            job = next(iter(self.floor.there[name]))
            raise Conflict(f"host {name!r} still runs job {job!r}: tell that its jobs have ended first")
        self.floor.drop(name)
        for job, claim in list(self.claims.items()):
            if name in claim.nodes:
                self.unclaim(job)
        self._forget_obstacles()

    def _forget_obstacles(self) -> None:
        for kind in self.kinds.values():
            kind.obstacle = None
        for lineup in self.lineups.values():
            self.unpark(lineup, "never")

    # Queues

    def put_queues(self, queues: Iterable[Queue], cohorts: Iterable[Cohort]) -> None:
        given = list(queues)
        branches = plant(given, cohorts)
        averages = {name: self._averages(lineup.branch) for name, lineup in self.lineups.items() if lineup.branch}
        for lineup in self.lineups.values():
            lineup.queue = lineup.branch = None
        for queue in given:
            lineup = self.lineup(queue.name)
            lineup.queue, lineup.branch, lineup.accrued = queue, branches[queue.name], 0
            for resource, average in averages.get(queue.name, {}).items():
                self._add_average(lineup.branch, resource, average)
        for lineup in list(self.lineups.values()):
            if lineup.queue is None and not lineup.waiting and not lineup.holdings:
                del self.lineups[lineup.name]
                continue
            self._refit(lineup, averages.get(lineup.name, {}))

    def _refit(self, lineup: Lineup, known: dict[str, float]) -> None:
        """A queue's jobs under its new quotas, order and state; `known` are the resources whose use was counted before."""
        for of_priority in lineup.holdings.values():
            for held in of_priority.values():
                held.charge = self.charge_of(lineup, held.running.job.shape, held.running.placement)
                if lineup.branch is not None:
                    charge(lineup.branch, held.charge)
                    began = self.decay.at(held.running.started)
                    for place in lineup.branch.path:
                        for index, amount in held.charge:
                            place.rate[index] += amount
                            if place.tree.names[index] not in known:
                                place.average[index] -= amount * began
        for line in lineup.lines.values():
            line.measure()
            for waiting in list(line.all()):
                self._stand(waiting)
            self.release_line(line)
        self.dirty[lineup.name] = None

    def _averages(self, branch: Branch | None) -> dict[str, float]:
        """Past use by name, whole: what runs is charged anew and its beginning is in here already."""
        return dict(zip(branch.tree.names, branch.average, strict=True)) if branch else {}

    def _add_average(self, branch: Branch, resource: str, average: float) -> None:
        index = branch.tree.resources.get(resource)
        if index is not None:
            for place in branch.path:
                place.average[index] += average

    def remember(self, queue: str, used: dict[str, int], at: Moment, project: str, user: str) -> None:
        lineup, inflation = self.lineup(queue), self.decay.at(at)
        if lineup.branch is not None:
            for resource, amount in used.items():
                self._add_average(lineup.branch, resource, self.decay.per_average(amount) * inflation)
        if project:
            cards = Shape(
                cpu_milli=used.get(CPU, 0),
                memory_mib=used.get(MEMORY, 0),
                gpus=1 if used.get(GPU) else 0,
                gpu_milli=used.get(GPU, 0),
            )
            job = Job(id="", project=project, user=user, queue=queue, submitted=at, shape=cards, zones=())
            for account in lineup.account(project, user):
                account.average += self.decay.per_average(width(job, 1)) * inflation

    def lineup(self, name: str) -> Lineup:
        found = self.lineups.get(name)
        if found is None:
            found = self.lineups[name] = Lineup(name)
        return found

    # Jobs that wait

    def submitted(self, job: Job) -> None:
        check(job)
        if job.id in self.waiting or job.id in self.holdings or job.id in self.held:
            raise Conflict(f"job {job.id!r} waits or runs already: tell that it ended before it is submitted again")
        if job.not_before > self.now:
            self.held[job.id] = job
            heapq.heappush(self.alarms, (int(job.not_before), "held", job.id))
            return
        self.line_up(job)

    def line_up(self, job: Job) -> None:
        lineup = self.lineup(job.queue)
        key = kind_of(job)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(key, job)
        place = (kind, job.preemptible, job.price_per_hour > 0)
        line = lineup.lines.get(place)
        if line is None:
            line = lineup.lines[place] = Line(lineup, kind, place, preemptible=job.preemptible)
            line.measure()
            kind.uses += 1
        waiting = self.waiting[job.id] = Waiting(job, line)
        lineup.waiting += 1
        for account in lineup.account(job.project, job.user):
            account.waiting += 1
        self.floor.room.saw(job.shape, job.count)
        self._stand(waiting)
        from_then = starves_from(job, self.rules, lineup.by_length)
        heapq.heappush(self.alarms, (from_then, "starving", job.id))
        if line.head() is waiting and line.parked not in ("closed", "never"):
            self.release_line(line)

    def _stand(self, waiting: Waiting) -> None:
        assert waiting.line is not None  # nosec B101 - said for the types alone
        change = waiting.line.lineup.stand(waiting, self.rules, self.now)
        if change is not None:
            heapq.heappush(self.changes, (change, waiting.job.id))

    def restand(self, waiting: Waiting) -> None:
        """Its standing changed with time; its line is tried in its new order, once more where somebody else leads it now."""
        line = waiting.line
        assert line is not None  # nosec B101 - said for the types alone
        led = line.head()
        self._stand(waiting)
        if line.head() is not waiting:
            return
        if line.parked and led is not waiting:
            self.release_line(line)
        elif not line.parked:
            line.lineup.offer(line)

    def leave_line(self, waiting: Waiting) -> None:
        line, job = waiting.line, waiting.job
        assert line is not None  # nosec B101 - said for the types alone
        waiting.line = None
        del self.waiting[job.id]
        line.lineup.waiting -= 1
        for account in line.lineup.account(job.project, job.user):
            account.waiting -= 1
        self.starving.pop(job.id, None)
        self.unclaim(job.id)
        if line.head() is None:
            self._drop_line(line)
        elif not line.parked:
            self.release_line(line)

    def _drop_line(self, line: Line) -> None:
        line.kind.lines.pop(line, None)
        self.behind.pop(line, None)
        self.hopeful.pop(line, None)
        line.parked, line.stamp = "", 0
        line.lineup.lines.pop(line.key, None)
        line.kind.uses -= 1
        if not line.kind.uses:
            self.kinds.pop(line.kind.key, None)
            self.short_of_room.pop(line.kind, None)

    def release_line(self, line: Line, woken: Woken = "") -> None:
        """May be tried again."""
        line.woken = woken
        if not woken:
            self.hopeful.pop(line, None)
        line.kind.lines.pop(line, None)
        if not line.kind.lines:
            self.short_of_room.pop(line.kind, None)
        self.behind.pop(line, None)
        line.lineup.offer(line)
        self.dirty[line.lineup.name] = None

    def park(self, line: Line, why: Parked) -> None:
        line.parked = why
        if why == "room":
            line.kind.lines[line] = None
            self.short_of_room[line.kind] = None
        elif why == "behind":
            self.behind[line] = None

    def unpark(self, lineup: Lineup, why: Parked) -> None:
        for line in lineup.lines.values():
            if line.parked == why:
                self.release_line(line)

    # Jobs that run

    def charge_of(self, lineup: Lineup, shape: Shape, placement: Placement) -> Charge:
        """What seats take of the resources that the queue's tree limits, by the model of each card."""
        if lineup.branch is None:
            return ()
        limited, tasks = lineup.branch.tree.resources, len(placement)
        wants = {
            CPU: shape.cpu_milli * tasks,
            MEMORY: shape.memory_mib * tasks,
            IO: shape.io * tasks,
            GPU: shape.gpus * shape.gpu_milli * tasks,
        }
        amounts = [(limited[name], amount) for name, amount in wants.items() if amount > 0 and name in limited]
        if lineup.branch.tree.models and shape.gpus:
            by_model: dict[int, int] = {}
            for seat in placement:
                models = self.floor.nodes[seat.node].cards if seat.node in self.floor.nodes else ()
                for card in seat.cards:
                    index = lineup.branch.tree.models.get(models[card]) if card < len(models) else None
                    if index is not None:
                        by_model[index] = by_model.get(index, 0) + min(shape.gpu_milli, CARD)
            amounts.extend(by_model.items())
        return tuple(amounts)

    def hold(self, running: Running) -> Holding:
        job = running.job
        lineup = self.lineup(job.queue)
        held = Holding(running, lineup, self.charge_of(lineup, job.shape, running.placement))
        if running.started >= starves_from(job, self.rules, lineup.by_length):
            self.shielded[job.id] = running.started + next_step(job, job.served)
        self.holdings[job.id] = held
        lineup.hold(held)
        if running.stopping is not None:
            self.stopping[job.id] = held
        self._seat(held, running.started)
        return held

    def checkpointed(self, job: str, at: Moment) -> None:
        held = self.holdings.get(job)
        if held is not None:
            old = held.running
            held.running = Running(
                job=old.job, placement=old.placement, started=old.started, checkpointed=at, stopping=old.stopping
            )

    def ended(self, job: str, now: Moment) -> None:
        self.advance(now)
        held, waiting = self.holdings.get(job), self.waiting.get(job)
        self.held.pop(job, None)
        if held is not None:
            self.let_go(held, self.now)
        if waiting is not None:
            self.leave_line(waiting)

    def let_go(self, held: Holding, now: int) -> None:
        job, lineup = held.running.job, held.lineup
        self._unseat(held, now)
        del self.holdings[job.id]
        lineup.let_go(job)
        self.elastic.pop(job.id, None)
        self.stretched.pop(job.id, None)
        self.shielded.pop(job.id, None)
        self.stopping.pop(job.id, None)
        lineup.accrued += price_of(job, now - held.running.started)
        if lineup.queue is not None and lineup.queue.budget:
            self.unpark(lineup, "budget")
        for claim in self.claims.values():
            if claim.yielding.pop(job.id, None) is not None:
                self.stirred = True
        if lineup.queue is None and not lineup.waiting and not lineup.holdings:
            self.lineups.pop(lineup.name, None)

    def reseat(self, held: Holding, placement: Placement, now: int) -> None:
        """Goes on with other seats."""
        self._unseat(held, now)
        old = held.running
        held.running = Running(
            job=old.job, placement=placement, started=old.started, checkpointed=old.checkpointed, stopping=old.stopping
        )
        held.rate, held.sized = width(old.job, len(placement)), now
        held.charge = self.charge_of(held.lineup, old.job.shape, placement)
        self._seat(held, now)

    def _seat(self, held: Holding, now: int) -> None:
        job, placement = held.running.job, held.running.placement
        self.floor.take(held)
        inflation = self.decay.at(now)
        if held.lineup.branch is not None:
            charge(held.lineup.branch, held.charge)
            for place in held.lineup.branch.path:
                for index, amount in held.charge:
                    place.rate[index] += amount
                    place.average[index] -= amount * inflation
        for account in held.lineup.account(job.project, job.user):
            account.began(held.rate, inflation)
        if job.least and len(placement) < job.count:
            self.elastic[job.id] = held
        else:
            self.elastic.pop(job.id, None)
        if job.least and len(placement) > job.least:
            self.stretched[job.id] = held
        else:
            self.stretched.pop(job.id, None)

    def _unseat(self, held: Holding, now: int) -> None:
        job = held.running.job
        self.floor.give(held)
        inflation = self.decay.at(now)
        if held.lineup.branch is not None:
            discharge(held.lineup.branch, held.charge)
            self.loosened[id(held.lineup.branch.tree)] = held.lineup.branch.tree
            self.owed[held.lineup.name] = None
            for place in held.lineup.branch.path:
                for index, amount in held.charge:
                    place.rate[index] -= amount
                    place.average[index] += amount * inflation
        for account in held.lineup.account(job.project, job.user):
            account.stopped(held.rate, inflation)

    # Places in the future

    def unclaim(self, job: str) -> None:
        claim = self.claims.pop(job, None)
        if claim is not None:
            for held in claim.yielding.values():
                if held.claim == job:
                    held.claim = ""
            self.wake_behind()

    def wake_behind(self) -> None:
        for line in list(self.behind):
            self.release_line(line)

    def narrowed(self, line: Line, job: Job, tasks: int) -> Job | None:
        """The job, kept to the GPU models of which its queue has quota for all of it; None where there is no such model."""
        branch = line.lineup.branch
        if not line.model_demand or branch is None:
            return job
        models = job.shape.models or tuple(sorted({model for node in self.floor.nodes.values() for model in node.cards}))
        limited, needed = branch.tree.models, line.model_demand * tasks
        allowed = tuple([model for model in models if model not in limited or allowance(line, limited[model]) >= needed])
        if len(allowed) == len(models):
            return job
        return replace(job, shape=replace(job.shape, models=allowed)) if allowed else None

    def shares(self) -> dict[str, dict[str, tuple[int, int, int, int]]]:
        found: dict[str, dict[str, tuple[int, int, int, int]]] = {}
        for name, lineup in self.lineups.items():
            if lineup.branch is not None:
                found[name] = {
                    resource: share_of(lineup.branch, index) for resource, index in lineup.branch.tree.resources.items()
                }
        return found

    def available(self, queue: str, resource: str) -> int:
        branch = self.lineup(queue).branch
        return 0 if branch is None else available(branch, branch.tree.resources[resource])

    def fair_share(self, queue: str) -> float:
        branch = self.lineup(queue).branch
        return 0.0 if branch is None else share(branch, self.decay.at(self.now))

    def rebase(self, now: int) -> None:
        """Brings the inflated memory of past use down again, long before it could overflow."""
        by = self.decay.rebased(now)
        for branch in {
            id(place): place for lineup in self.lineups.values() if lineup.branch for place in lineup.branch.path
        }.values():
            branch.average = [average / by for average in branch.average]
        for lineup in self.lineups.values():
            for owner in lineup.projects.values():
                for account in (owner, *owner.users.values()):
                    account.average /= by
