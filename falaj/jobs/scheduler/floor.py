"""What the hosts hold: their room, and by host what is spare and who is there, so that most questions need no search."""

from typing import Final

from falaj.base.errors import Invalid
from falaj.jobs.scheduler.lines import Holding, Line
from falaj.jobs.scheduler.quotas import ABSURD
from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import CARD, Job, Node, Placement, Seat, Shape

Amounts = tuple[int, int, int, int]  # CPU, memory, I/O and GPUs
NOTHING: Final[Amounts] = (0, 0, 0, 0)


def amounts_of(shape: Shape) -> Amounts:
    """Of one task."""
    return shape.cpu_milli, shape.memory_mib, shape.io, shape.gpus * shape.gpu_milli


class Floor:
    def __init__(self) -> None:
        self.room = Room()
        self.nodes: dict[str, Node] = {}
        self.spare: dict[str, list[int]] = {}  # by host, as `Amounts`
        self.cards: dict[str, list[int]] = {}  # by host: what is free of each card
        self.there: dict[str, dict[str, Holding]] = {}  # by host: who has seats on it
        self.models: dict[str, set[str]] = {}  # by zone that has hosts: their cards' models
        self.touched: set[str] = set()  # hosts on which something was given back, since the last round

    def put(self, node: Node) -> None:
        for word, amount in (("CPU", node.cpu_milli), ("memory", node.memory_mib), ("I/O", node.io)):
            if not 0 <= amount < ABSURD:
                raise Invalid(f"host {node.name!r} has {word} {amount}: expected 0 to {ABSURD - 1}")
        before = self.nodes.get(node.name)
        self.room.put(node)
        self.nodes[node.name] = node
        spare, cards = self.spare.setdefault(node.name, [0, 0, 0, 0]), self.cards.setdefault(node.name, [])
        cards.extend([CARD] * (len(node.cards) - len(cards)))
        for place, (new, old) in enumerate(zip(_size(node), _size(before) if before else NOTHING, strict=True)):
            spare[place] += new - old
        self.touched.add(node.name)
        self.models.setdefault(node.zone, set()).update(node.cards)
        if before is not None and (before.zone, before.cards) != (node.zone, node.cards):
            self._list_models()

    def drop(self, name: str) -> None:
        self.room.drop(name)
        del self.nodes[name], self.spare[name], self.cards[name]
        self.there.pop(name, None)
        self.touched.discard(name)
        self._list_models()

    def _list_models(self) -> None:
        self.models = {}
        for node in self.nodes.values():
            self.models.setdefault(node.zone, set()).update(node.cards)

    def take(self, held: Holding) -> None:
        job, placement = held.running.job, held.running.placement
        self.room.take(job, placement)
        self._account(job.shape, placement, -1)
        for seat in placement:
            self.there.setdefault(seat.node, {})[job.id] = held

    def give(self, held: Holding) -> None:
        job, placement = held.running.job, held.running.placement
        self.room.give(job, placement)
        self._account(job.shape, placement, 1)
        for seat in placement:
            self.there[seat.node].pop(job.id, None)
            self.touched.add(seat.node)

    def _account(self, shape: Shape, placement: Placement, sign: int) -> None:
        task = amounts_of(shape)
        for seat in placement:
            spare = self.spare.setdefault(seat.node, [0, 0, 0, 0])
            for index, amount in enumerate(task):
                spare[index] += amount * sign
            if seat.cards:
                self._account_cards(seat, shape.gpu_milli * sign)

    def _account_cards(self, seat: Seat, amount: int) -> None:
        cards = self.cards.setdefault(seat.node, [])
        cards.extend([CARD] * (max(seat.cards) + 1 - len(cards)))
        for card in seat.cards:
            cards[card] += amount

    def has_place(self, name: str, sample: Job) -> bool:
        """Whether a host could take even one task. If none where something was given back can, nothing changed for its kind."""
        shape = sample.shape
        if not self._suits(name, sample) or not _covers(self.spare[name], shape):
            return False
        if not shape.gpus:
            return True
        cards = self.cards[name]
        return max(cards, default=0) >= shape.gpu_milli if shape.gpu_milli < CARD else cards.count(CARD) >= shape.gpus

    def could_be_cleared(self, name: str, line: Line, priority: int) -> bool:
        """Whether a host could take even one task if all went that might be stopped for it; who that is, roughly."""
        if not self._suits(name, line.kind.sample):
            return False
        free, branch = list(self.spare[name]), line.lineup.branch
        for held in self.there.get(name, {}).values():
            job, other = held.running.job, held.lineup
            lower = job.priority < priority or (line.lineup.by_length and job.priority == priority)
            kin = branch is not None and other.branch is not None and other.branch.tree is branch.tree
            shrinks = 0 < job.least < len(held.running.placement)
            if shrinks or (lower if other is line.lineup else kin):
                seats = sum([seat.node == name for seat in held.running.placement])
                for index, amount in enumerate(amounts_of(job.shape)):
                    free[index] += amount * seats
        return _covers(free, line.kind.sample.shape)

    def _suits(self, name: str, sample: Job) -> bool:
        node = self.nodes.get(name)
        if node is None or not node.open or node.zone not in sample.zones:
            return False
        models = sample.shape.models
        return not models or not sample.shape.gpus or any(model in models for model in node.cards)


def _covers(free: list[int], shape: Shape) -> bool:
    """Asked of every kind that waits whenever something is given back, so written out."""
    return (
        free[0] >= shape.cpu_milli
        and free[1] >= shape.memory_mib
        and free[2] >= shape.io
        and free[3] >= shape.gpus * shape.gpu_milli
    )


def _size(node: Node) -> Amounts:
    return node.cpu_milli, node.memory_mib, node.io, len(node.cards) * CARD
