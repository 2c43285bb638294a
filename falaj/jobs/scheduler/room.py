"""Where there is room: every host's free CPU, memory and cards, and the choice among them.

It is told what was taken and given back, and answers where the next job would do the least harm to those who come after it:
`usual` learns what comes, `holes` and `table` price what is left, `gangs` seats several tasks at once.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from falaj.jobs.scheduler.gangs import spread_over, tasks_by_row
from falaj.jobs.scheduler.hosts import MANY, Host, part_of
from falaj.jobs.scheduler.obstacles import Alike, alike, obstacle
from falaj.jobs.scheduler.table import Ask, Layout, Table
from falaj.jobs.scheduler.usual import Usual
from falaj.jobs.scheduler.values import CARD, CPU, GPU, IO, MEMORY, Job, Node, Placement, Running, Seat, Shape, gpu_of

_REMEMBERED: Final = 4096  # asks and answers


class Room:
    """All hosts of a platform. `take` and `give` keep it true; `find` changes nothing.

    The same facts give the same answers in whatever order hosts were named. Not for several threads at once.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._hosts: dict[str, Host] = {}
        self._labelled: set[str] = set()  # hosts that keep labels apart
        self._gone: set[str] = set()  # hosts that are not there while something is still held on them
        self._usual = Usual()
        self._prices = self._usual.prices()
        self._projects: dict[str, int] = {}
        self._free: dict[str, int] | None = None  # kept true once it was asked for
        self._alike: Alike | None = None
        self._table: Table | None = None  # built when it is asked for; hosts come and go many at a time
        self._asks: dict[tuple[Shape, tuple[str, ...]], Ask] = {}
        self._answers: dict[tuple[object, ...], Placement | None] = {}
        for node in nodes:
            self.put(node)

    def put(self, node: Node) -> None:
        """A host that joined, or one whose size or state changed. What runs on it goes on."""
        host = self._hosts.get(node.name)
        self._gone.discard(node.name)
        if host is None:
            self._hosts[node.name] = Host(node)
        elif host.node == node:
            return
        else:
            host.put(node)
        self._forget_table()

    def drop(self, name: str) -> None:
        """A host that is gone; what it ran was given back before, or is remembered until it is."""
        host = self._hosts.pop(name)
        if host.tasks:
            host.put(_nothing(name))
            self._hosts[name] = host
            self._gone.add(name)
        self._forget_table()

    def saw(self, shape: Shape, count: int = 1) -> None:
        """A job of this shape came in: what is usual decides what a hole is worth."""
        if self._usual.saw(shape, count):
            self._prices = self._usual.prices()
            self._asks.clear()
            self._answers.clear()
            if self._table is not None:
                self._table.price(self._prices)

    def find(
        self, job: Job, count: int, without: Sequence[Running] = (), *, avoiding: Collection[str] = ()
    ) -> Placement | None:
        """Seats for `count` tasks of a job, or None. `without`: as if these had given back theirs; `avoiding`: on other hosts
        than these."""
        shape = job.shape
        if without or avoiding or job.label or job.apart_from:
            return self._search(job, count, without, avoiding)
        question = (shape, job.zones, job.topology, count, job.project if shape.sharing == "time" else None)
        if question not in self._answers:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[question] = self._search(job, count, (), ())
        return self._answers[question]

    def take(self, job: Job, placement: Placement) -> None:
        for seat in placement:
            host = self._hosts.get(seat.node)
            if host is None:  # it runs on a host that nobody named: it holds what it holds all the same
                host = self._hosts[seat.node] = Host(_nothing(seat.node))
                self._gone.add(seat.node)
                self._forget_table()
            host.take(job, seat.cards)
        self._changed(job, placement, -1)

    def give(self, job: Job, placement: Placement) -> None:
        for seat in placement:
            self._hosts[seat.node].give(job, seat.cards)
        self._changed(job, placement, 1)

    def could_ever(self, job: Job, count: int) -> str:
        """Empty where an idle cluster could take it, else one sentence that says what stands in the way."""
        if self._alike is None:
            self._alike = alike(host.node for name, host in self._hosts.items() if name not in self._gone)
        return obstacle(job, count, self._alike)

    def free(self) -> dict[str, int]:
        """By resource, on hosts that are open."""
        if self._free is None:
            hosts = [host for host in self._hosts.values() if host.node.open]
            self._free = _sum((host.node, host.cpu, host.memory, host.io, host.free) for host in hosts)
        return self._free.copy()

    def total(self) -> dict[str, int]:
        """By resource, on all hosts."""
        nodes = [host.node for host in self._hosts.values()]
        return _sum((node, node.cpu_milli, node.memory_mib, node.io, [CARD] * len(node.cards)) for node in nodes)

    @property
    def is_divided(self) -> bool:
        """Whether its hosts belong to several engines."""
        return len(self._as_if(())[0].layout.engines) > 1

    def _search(self, job: Job, count: int, without: Sequence[Running], avoiding: Collection[str]) -> Placement | None:
        if not _sensible(job.shape, count):
            return None
        table, lent = self._as_if(without)
        ask = self._ask_of(job, table.layout)
        closed = self._closed_to(job, table, lent)
        closed += [table.layout.rows[name] for name in avoiding if name in table.layout.rows]
        if count == 1:
            costs = table.costs(ask, job)
            if closed:
                costs[closed] = np.inf
            row = int(costs.argmin()) if len(costs) else -1
            tasks = {row: 1} if row >= 0 and costs[row] < np.inf else None
        else:
            tasks = tasks_by_row(table, ask, job, count, closed)
        return None if tasks is None else self._seated(job, ask, tasks, table.layout, lent)

    def _ask_of(self, job: Job, layout: Layout) -> Ask:
        key = (job.shape, job.zones)
        ask = self._asks.get(key)
        if ask is None:
            if len(self._asks) >= _REMEMBERED:
                self._asks.clear()
            ask = self._asks[key] = Ask(job.shape, job.zones, layout, self._prices)
        return ask

    def _seated(self, job: Job, ask: Ask, tasks: dict[int, int], layout: Layout, lent: dict[int, Host]) -> Placement:
        seats: list[Seat] = []
        for row, count in tasks.items():
            host = lent.get(row) or layout.hosts[row]
            seats += [Seat(node=host.node.name, cards=cards) for cards in host.cards_for(job, count, ask.holes)]
        return tuple(spread_over(seats) if job.topology == "spread" else seats)

    def _as_if(self, without: Sequence[Running]) -> tuple[Table, dict[int, Host]]:
        """The table, and copies of the hosts that changed, as they were if these had given back theirs."""
        lent: dict[int, Host] = {}
        if self._table is None:
            self._table = Table(Layout(self._hosts.values()), self._prices, self._projects)
        if not without:
            return self._table, lent
        table = self._table.copy()
        for running in without:
            for seat in running.placement:
                row = table.layout.rows[seat.node]
                if row not in lent:
                    lent[row] = table.layout.hosts[row].copy()
                lent[row].give(running.job, seat.cards)
        for row, host in lent.items():
            table.write(row, host)
        return table, lent

    def _closed_to(self, job: Job, table: Table, lent: dict[int, Host]) -> list[int]:
        """Rows of hosts where a label stands between this job and another."""
        if not (job.label or job.apart_from):
            return []
        rows = [table.layout.rows[name] for name in self._labelled]
        return [row for row in rows if not (lent.get(row) or table.layout.hosts[row]).admits(job)]

    def _changed(self, job: Job, placement: Placement, sign: int) -> None:
        self._answers.clear()
        if self._free is not None:
            for seat in placement:
                _add(self._free, self._hosts[seat.node].node, job.shape, seat.cards, sign)
        for name in {seat.node for seat in placement}:
            host = self._hosts[name]
            if job.label or job.apart_from:
                (self._labelled.add if host.labels or host.refused else self._labelled.discard)(name)
            if name in self._gone and not host.tasks:
                del self._hosts[name]
                self._gone.discard(name)
                self._forget_table()
            elif self._table is not None:
                self._table.write(self._table.layout.rows[name], host)

    def _forget_table(self) -> None:
        self._table = self._free = self._alike = None
        self._asks.clear()
        self._answers.clear()


def _nothing(name: str) -> Node:
    return Node(name=name, zone="", cpu_milli=0, memory_mib=0, open=False)


def _sensible(shape: Shape, count: int) -> bool:
    amounts = (shape.cpu_milli, shape.memory_mib, shape.io, shape.gpus)
    if count < 1 or min(amounts) < 0 or max(amounts) * count > MANY:
        return False
    return not shape.gpus or part_of(shape) == CARD or (shape.gpus == 1 and 0 < shape.gpu_milli < CARD)


def _sum(parts: Iterable[tuple[Node, int, int, int, Sequence[int]]]) -> dict[str, int]:
    amounts = {CPU: 0, MEMORY: 0, IO: 0, GPU: 0}
    for node, cpu, memory, io, cards in parts:
        amounts[CPU] += cpu
        amounts[MEMORY] += memory
        amounts[IO] += io
        for model, amount in zip(node.cards, cards, strict=False):
            amounts[GPU] += amount
            amounts[gpu_of(model)] = amounts.get(gpu_of(model), 0) + amount
    return amounts


def _add(amounts: dict[str, int], node: Node, shape: Shape, cards: Sequence[int], sign: int) -> None:
    if not node.open:
        return
    amounts[CPU] += sign * shape.cpu_milli
    amounts[MEMORY] += sign * shape.memory_mib
    amounts[IO] += sign * shape.io
    for card in cards:
        if card < len(node.cards):  # else of a card that its host no longer names
            amounts[GPU] += sign * part_of(shape)
            amounts[gpu_of(node.cards[card])] += sign * part_of(shape)
