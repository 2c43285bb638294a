"""A scheduler for tests of what stands around it: first come, first served, wherever there is room; no quotas.

It can be told to preempt, so that what follows from that is seen whenever a test wants it.
"""

from collections.abc import Iterable
from dataclasses import replace

from falaj.base.clock import Moment
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Cohort, Job, Node, Plan, Queue, Resize, Rules, Running, Seat, Start, Stop


class FirstFit(Scheduler):
    def __init__(
        self,
        rules: Rules = Rules(),  # noqa: B008
        *,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        cohorts: Iterable[Cohort] = (),
    ) -> None:
        self.rules = rules
        self.nodes = {node.name: node for node in nodes}
        self.queues = {queue.name: queue for queue in queues}
        self.waiting: dict[str, Job] = {}
        self.held: dict[str, Running] = {}
        self.to_stop: list[str] = []
        self.to_resize: list[tuple[str, int]] = []
        self.checkpoints: dict[str, Moment] = {}
        self.past: dict[tuple[str, str, str], dict[str, int]] = {}
        self.cpu: dict[str, int] = {}
        self.cards: dict[tuple[str, int], int] = {}

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    def drop_node(self, name: str) -> None:
        assert not any(seat.node == name for running in self.held.values() for seat in running.placement)
        del self.nodes[name]

    def put_queues(self, queues: Iterable[Queue], cohorts: Iterable[Cohort]) -> None:
        self.queues = {queue.name: queue for queue in queues}

    def remember(self, queue: str, used: dict[str, int], at: Moment, *, project: str = "", user: str = "") -> None:
        self.past[queue, project, user] = used

    def submitted(self, job: Job) -> None:
        assert job.id not in self.waiting
        assert job.id not in self.held
        assert job.queue in self.queues
        self.waiting[job.id] = job

    def running(self, running: Running) -> None:
        assert running.job.id not in self.held
        self._take(running)

    def checkpointed(self, job: str, at: Moment) -> None:
        assert job in self.held
        self.checkpoints[job] = at

    def ended(self, job: str, now: Moment) -> None:
        assert job in self.waiting or job in self.held
        self.waiting.pop(job, None)
        running = self.held.pop(job, None)
        if running is not None:
            self._count(running, -1)

    def decide(self, now: Moment) -> Plan:
        stops = [
            Stop(job=id, reason="Somebody else needs the place.", until=Moment(now + self.rules.grace_of(self.held[id].job)))
            for id in self.to_stop
            if id in self.held
        ]
        self.to_stop = []
        resizes = [Resize(job=id, placement=self._resized(id, tasks), reason="Smaller.") for id, tasks in self.to_resize]
        self.to_resize = []
        starts = []
        for job in list(self.waiting.values()):
            placement = None if job.not_before > now or not self.queues[job.queue].open else self._room(job)
            if placement is not None:
                del self.waiting[job.id]
                self._take(Running(job=job, placement=placement, started=now))
                starts.append(Start(job=job.id, placement=placement, reason="There is room."))
        held_back = [job.not_before for job in self.waiting.values() if job.not_before > now]
        return Plan(
            at=now,
            starts=tuple(starts),
            stops=tuple(stops),
            resizes=tuple(resizes),
            next=min(held_back, default=None),
        )

    def _resized(self, id: str, tasks: int) -> tuple[Seat, ...]:
        running = self.held.pop(id)
        self._count(running, -1)
        self._take(replace(running, placement=running.placement[:tasks]))
        return running.placement[:tasks]

    def _take(self, running: Running) -> None:
        self.held[running.job.id] = running
        self._count(running, 1)

    def _count(self, running: Running, sign: int) -> None:
        for seat in running.placement:
            self.cpu[seat.node] = self.cpu.get(seat.node, 0) + sign * running.job.shape.cpu_milli
            for card in seat.cards:
                self.cards[seat.node, card] = self.cards.get((seat.node, card), 0) + sign

    def _room(self, job: Job) -> tuple[Seat, ...] | None:
        seats: list[Seat] = []
        taken: dict[str, int] = {}
        for node in self.nodes.values():
            while node.open and node.zone in job.zones and len(seats) < job.count:
                used = self.cpu.get(node.name, 0) + taken.get(node.name, 0)
                free = [card for card in range(len(node.cards)) if not self.cards.get((node.name, card))]
                if used + job.shape.cpu_milli > node.cpu_milli or len(free) < job.shape.gpus:
                    break
                taken[node.name] = taken.get(node.name, 0) + job.shape.cpu_milli
                seats.append(Seat(node=node.name, cards=tuple(free[: job.shape.gpus])))
                if job.shape.gpus:
                    break  # one task with cards per node is enough here
        return tuple(seats) if len(seats) == job.count else None
