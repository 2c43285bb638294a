"""All hosts side by side, as columns: what a task would cost on each of them, in one pass.

A host is worth the cards of usual work it can still take: the least of what its cards, its CPU and its memory would carry.
What a task costs there is how much of that it takes away, so holes that nobody can use, and cards left without CPU, cost
before they come about. `hosts` keeps the books of one host; `room` chooses.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from falaj.jobs.scheduler.holes import Numbers, exactly
from falaj.jobs.scheduler.hosts import MANY, Host, part_of
from falaj.jobs.scheduler.usual import Prices
from falaj.jobs.scheduler.values import CARD, Job, Node, Shape, Sharing

_LEFT_OPEN: Final = 0.05  # of two cards that cost the same, the one is taken of which less stays open
_RESERVE: Final = 1.5  # times what is still to come for a model is kept for those who can use no other

Amounts = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Layout:
    """What does not change while hosts come to be used: their order, zones, racks and models.

    Hosts with the fewest cards come first, then it goes by name. Of equals the first is taken, so that large hosts stay whole.
    """

    def __init__(self, hosts: Iterable[Host]) -> None:
        self.hosts = sorted(hosts, key=lambda host: (len(host.node.cards), host.node.name))
        self.rows = {host.node.name: row for row, host in enumerate(self.hosts)}
        nodes = [host.node for host in self.hosts]
        self.most_cards = max((len(node.cards) for node in nodes), default=0)
        self._zones = {zone: number for number, zone in enumerate(sorted({node.zone for node in nodes}))}
        self.zones = np.array([self._zones[node.zone] for node in nodes], dtype=np.int64)
        self.racks = _racks(nodes)
        engines = [node.engine for node in nodes]
        several = sorted(set(engines)) if len(set(engines)) > 1 else []
        self.engines = [np.array([name == one for name in engines], dtype=bool) for one in several]  # hosts of each
        self.open = np.array([node.open for node in nodes], dtype=bool)
        kinds: tuple[Sharing, ...] = ("whole", "mps", "time")
        self._offering = {kind: np.array([kind in node.sharing for node in nodes], dtype=bool) for kind in kinds}
        self.by_time = bool(self._offering["time"].any())
        self.models = sorted({model for node in nodes for model in node.cards})
        # Of a host without cards, or with several models, nothing is kept: it counts to a number beyond the last model.
        numbers = {model: number for number, model in enumerate(self.models)}
        only = [node.cards[0] if len(set(node.cards)) == 1 else "" for node in nodes]
        self.model_of = np.array([numbers.get(model, len(numbers)) for model in only], dtype=np.int64)
        self.supply = np.zeros(len(numbers) + 1)
        np.add.at(self.supply, self.model_of, [len(node.cards) * node.open for node in nodes])
        self.supply[-1] = 0
        padded = [node.cards + ("",) * (self.most_cards - len(node.cards)) for node in nodes]
        self._card_models = np.array(padded, dtype=object).reshape(len(nodes), self.most_cards).T

    def within(self, zones: tuple[str, ...]) -> Flags:
        """Hosts that take new work, in these zones alone."""
        numbers = [self._zones[zone] for zone in zones if zone in self._zones]
        allowed: Flags = self.open & (self.zones == numbers[0] if len(numbers) == 1 else np.isin(self.zones, numbers))
        return allowed

    def offering(self, sharing: Sharing) -> Flags:
        """Hosts whose cards may be shared like this."""
        return self._offering[sharing]

    def of_models(self, models: tuple[str, ...]) -> Flags | None:
        """Cards of these models; None where every card is."""
        if not models:
            return None
        allowed = np.zeros(self._card_models.shape, dtype=bool)
        for model in models:
            allowed |= self._card_models == model
        return allowed

    def pressure(self, prices: Prices) -> Numbers:
        """By model: the share of all cards asked for that falls on it because the job can use no other."""
        pressure = np.zeros(len(self.models) + 1)
        for models, share in prices.wanted.items():
            chosen = [number for number, model in enumerate(self.models) if model in models]
            if (supply := self.supply[chosen].sum()) > 0:
                pressure[chosen] += share * self.supply[chosen] / supply
        return pressure


def _racks(nodes: Sequence[Node]) -> Amounts:
    """A number for each rack; -1 for hosts that name none. Racks of two zones are never the same."""
    numbers: dict[tuple[str, str], int] = {}
    named = [numbers.setdefault((node.zone, node.rack), len(numbers)) if node.rack else -1 for node in nodes]
    return np.array(named, dtype=np.int64)


class Ask:
    """What one task of a shape takes, and where it may be at all: the same for every job of that shape in these zones."""

    __slots__ = ("cards", "cpu", "gpus", "holes", "hosts", "io", "memory", "part", "sharing", "usable")

    def __init__(self, shape: Shape, zones: tuple[str, ...], layout: Layout, prices: Prices) -> None:
        self.cpu, self.memory, self.io, self.gpus = shape.cpu_milli, shape.memory_mib, shape.io, shape.gpus
        self.part, self.sharing = part_of(shape), shape.sharing
        self.cards = self.gpus * self.part / CARD
        self.hosts = layout.within(zones)
        if self.gpus:
            self.hosts = self.hosts & layout.offering("whole" if self.part == CARD else shape.sharing)
        self.usable = layout.of_models(shape.models) if self.gpus else None
        self.holes = _hole_costs(prices.holes, self.part) if self.gpus and self.part < CARD else np.zeros(0)


def _hole_costs(worth: Numbers, part: int) -> Numbers:
    """By what is free of a card: what it loses by a part; endless where the part does not fit."""
    costs = np.full(CARD + 1, np.inf)
    left = np.arange(CARD + 1 - part)
    costs[part:] = exactly(worth[part:] - worth[left] + _LEFT_OPEN * left / CARD)
    return costs


class Table:
    """One row a host; of `free` and `_owners` one line a card."""

    __slots__ = (
        *("cpu", "free", "io", "layout", "memory", "projects"),
        *("_free_of", "_holes", "_idle", "_owners", "_pressure", "_prices", "_spare", "_use", "_worth"),
    )

    def __init__(self, layout: Layout, prices: Prices, projects: dict[str, int]) -> None:
        self.layout, self.projects = layout, projects
        hosts, cards = len(layout.hosts), layout.most_cards
        self.cpu, self.memory, self.io = (np.zeros(hosts, dtype=np.int64) for _ in range(3))
        self.free = np.zeros((cards, hosts), dtype=np.int64)
        self._idle, self._spare = np.zeros(hosts, dtype=np.int64), np.zeros(hosts, dtype=np.int64)
        self._owners = np.zeros((cards, hosts) if layout.by_time else (0, 0), dtype=np.int64)
        self._use, self._worth = np.zeros(hosts), np.zeros(hosts)
        self._free_of = np.zeros(len(layout.models) + 1)
        self.price(prices)
        for row, host in enumerate(layout.hosts):
            self.write(row, host)

    def price(self, prices: Prices) -> None:
        """Values everything anew."""
        self._prices, self._holes = prices, prices.holes.tolist()
        self._pressure = self.layout.pressure(prices)
        self._use = prices.holes[self.free].sum(axis=0)
        self._worth = np.minimum(self._use, np.minimum(self.cpu * prices.per_cpu, self.memory * prices.per_memory))

    def copy(self) -> "Table":
        made = Table.__new__(Table)
        made.layout, made.projects = self.layout, self.projects
        made._prices, made._holes, made._pressure = self._prices, self._holes, self._pressure
        made.cpu, made.memory, made.io = self.cpu.copy(), self.memory.copy(), self.io.copy()
        made.free, made._owners = self.free.copy(), self._owners.copy()
        made._idle, made._spare, made._free_of = self._idle.copy(), self._spare.copy(), self._free_of.copy()
        made._use, made._worth = self._use.copy(), self._worth.copy()
        return made

    def write(self, row: int, host: Host) -> None:
        """A host's books changed."""
        self.cpu[row], self.memory[row], self.io[row] = host.cpu, host.memory, host.io
        cards, use = len(host.node.cards), 0.0
        if cards:
            free = [amount if amount > 0 else 0 for amount in host.free[:cards]]
            self.free[:cards, row] = free
            self._idle[row] = free.count(CARD)
            use = sum([self._holes[amount] for amount in free])
            if self.layout.by_time:
                self._owners[:cards, row] = [self._owner(host, card) for card in range(cards)]
            if host.node.open:
                spare = sum(free)
                self._free_of[self.layout.model_of[row]] += spare - self._spare[row]
                self._spare[row] = spare
        self._use[row] = use
        self._worth[row] = min(use, host.cpu * self._prices.per_cpu, host.memory * self._prices.per_memory)

    def _owner(self, host: Host, card: int) -> int:
        """A number for the project that shares a card's time, 0 for an idle card, and -1 for one that is shared otherwise."""
        if owner := host.owners[card]:
            return self.projects.setdefault(owner, len(self.projects) + 1)
        return -1 if host.users[card] else 0

    def costs(self, ask: Ask, job: Job, count: int = 1) -> Numbers:
        """By host: what `count` tasks would take away of its worth; endless where one of them does not fit.

        That all of `count` parts of cards find theirs is for `seats` to say.
        """
        cpu, memory = self.cpu - ask.cpu * count, self.memory - ask.memory * count
        carried = np.minimum(cpu * self._prices.per_cpu, memory * self._prices.per_memory)
        fits = ask.hosts & (carried >= 0)
        if ask.io:
            fits &= self.io >= ask.io * count
        left = self._use
        if ask.gpus and ask.part == CARD:
            left = left - ask.gpus * count
            fits &= self._idle_for(ask) >= ask.gpus * count
        elif ask.gpus:
            losses = ask.holes[self._parts_for(ask, job)].min(axis=0, initial=np.inf)
            left = left - (losses if count == 1 else losses * count)
        costs = self._worth - np.minimum(left, carried)
        if ask.gpus and self._prices.wanted:
            costs += self._scarcity()[self.layout.model_of] * (ask.cards * count)
        return np.where(fits, costs, np.inf)

    def seats(self, ask: Ask, job: Job) -> Amounts:
        """By host: how many tasks it could take."""
        most = np.where(ask.hosts, MANY, 0)
        for asked, free in ((ask.cpu, self.cpu), (ask.memory, self.memory), (ask.io, self.io)):
            if asked:
                most = np.minimum(most, free // asked)
        if ask.gpus and ask.part == CARD:
            most = np.minimum(most, self._idle_for(ask) // ask.gpus)
        elif ask.gpus:
            most = np.minimum(most, (self._parts_for(ask, job) // ask.part).sum(axis=0))
        return np.maximum(most, 0)

    def _idle_for(self, ask: Ask) -> Amounts:
        if ask.usable is None:
            return self._idle
        idle: Amounts = ((self.free == CARD) & ask.usable).sum(axis=0)
        return idle

    def _parts_for(self, ask: Ask, job: Job) -> Amounts:
        """By card and host: what a part could be cut from."""
        parts = self.free
        if self.layout.by_time:
            own = self.projects.get(job.project, 0) if ask.sharing == "time" else -1
            parts = np.where((self._owners == 0) | (self._owners == own), parts, 0)
        return parts if ask.usable is None else np.where(ask.usable, parts, 0)

    def _scarcity(self) -> Numbers:
        """By model: how much of what is kept for jobs that can use no other is gone, from 0 to 1."""
        kept = _RESERVE * self._pressure * self._free_of.sum()
        scarce: Numbers = np.zeros(len(kept))
        np.divide(kept - self._free_of, kept, out=scarce, where=kept > self._free_of)
        return scarce
