"""One host's books: what is free of it, who shares which card, and which labels it keeps apart.

A `Host` is changed only by `take` and `give`; what it would look like without some jobs is asked of a copy.
"""

from collections.abc import Sequence
from typing import Final

from falaj.jobs.scheduler.holes import Numbers
from falaj.jobs.scheduler.values import CARD, Job, Node, Shape

Label = tuple[str, str]  # of whose project, and the word: what others call their jobs is no business of anybody
MANY: Final = 1 << 50  # more than anybody has of anything; so many tasks that ask for nothing fit on a host


def part_of(shape: Shape) -> int:
    """How much of each of its cards a task takes: one that shares with nobody takes all of it."""
    return CARD if shape.sharing == "whole" else shape.gpu_milli


class Host:
    """What is free may be below zero: a host that shrank under what it runs."""

    __slots__ = ("cpu", "free", "io", "kinds", "labels", "memory", "node", "owners", "refused", "tasks", "users")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cpu, self.memory, self.io = node.cpu_milli, node.memory_mib, node.io
        self.tasks = 0
        count = len(node.cards)
        self.free = [CARD] * count
        self.users = [0] * count
        self.kinds = [""] * count  # how a card is shared just now; empty where it is idle or taken whole
        self.owners = [""] * count  # the one project that shares its time
        self.labels: dict[Label, dict[str, int]] = {}  # label -> job -> tasks here
        self.refused: dict[Label, dict[str, int]] = {}

    def copy(self) -> "Host":
        made = Host.__new__(Host)
        made.node, made.cpu, made.memory, made.io, made.tasks = self.node, self.cpu, self.memory, self.io, self.tasks
        made.free, made.users = self.free.copy(), self.users.copy()
        made.kinds, made.owners = self.kinds.copy(), self.owners.copy()
        made.labels = {label: jobs.copy() for label, jobs in self.labels.items()} if self.labels else {}
        made.refused = {label: jobs.copy() for label, jobs in self.refused.items()} if self.refused else {}
        return made

    def put(self, node: Node) -> None:
        """The same host with another size or state."""
        old, self.node = self.node, node
        self.cpu += node.cpu_milli - old.cpu_milli
        self.memory += node.memory_mib - old.memory_mib
        self.io += node.io - old.io
        for index in range(max(len(old.cards), len(node.cards))):
            if index == len(self.free):
                self._add_card()
            self.free[index] += CARD * ((index < len(node.cards)) - (index < len(old.cards)))

    def _add_card(self) -> None:
        self.free.append(0)
        self.users.append(0)
        self.kinds.append("")
        self.owners.append("")

    def admits(self, job: Job) -> bool:
        """Whether no label of another job stands against it."""
        if job.label and _others(self.refused.get((job.project, job.label)), job.id):
            return False
        return not any(_others(self.labels.get((job.project, label)), job.id) for label in job.apart_from)

    def take(self, job: Job, cards: Sequence[int]) -> None:
        shape = job.shape
        self.cpu -= shape.cpu_milli
        self.memory -= shape.memory_mib
        self.io -= shape.io
        self.tasks += 1
        part = part_of(shape)
        for index in cards:
            while index >= len(self.free):  # of a job that runs on a card its host no longer names
                self._add_card()
            self.free[index] -= part
            self.users[index] += 1
            if part < CARD:
                self.kinds[index] = shape.sharing
                self.owners[index] = job.project if shape.sharing == "time" else ""
        if job.label:
            _count(self.labels, (job.project, job.label), job.id, 1)
        for label in job.apart_from:
            _count(self.refused, (job.project, label), job.id, 1)

    def give(self, job: Job, cards: Sequence[int]) -> None:
        shape = job.shape
        self.cpu += shape.cpu_milli
        self.memory += shape.memory_mib
        self.io += shape.io
        self.tasks -= 1
        part = part_of(shape)
        for index in cards:
            self.free[index] += part
            self.users[index] -= 1
            if not self.users[index]:
                self.kinds[index] = self.owners[index] = ""
        if job.label:
            _count(self.labels, (job.project, job.label), job.id, -1)
        for label in job.apart_from:
            _count(self.refused, (job.project, label), job.id, -1)

    def cards_for(self, job: Job, count: int, costs: Numbers) -> list[tuple[int, ...]]:
        """Cards for each of `count` tasks, where there is room for so many. `costs`: of a part, by what is free of its card."""
        shape, models = job.shape, self.node.cards
        if not shape.gpus:
            return [()] * count
        allowed = [card for card, model in enumerate(models) if not shape.models or model in shape.models]
        if (part := part_of(shape)) == CARD:
            idle = [card for card in allowed if self.free[card] == CARD]
            return [_of_one_model(idle, models, shape.gpus) for _ in range(count)]
        own = job.project if shape.sharing == "time" else ""
        free = {
            card: self.free[card]
            for card in allowed
            if not self.users[card] or (self.kinds[card] == shape.sharing and self.owners[card] == own)
        }
        chosen: list[tuple[int, ...]] = []
        for _ in range(count):
            card = min((card for card in free if free[card] >= part), key=lambda card: costs[free[card]])
            free[card] -= part
            chosen.append((card,))
        return chosen


def _of_one_model(idle: list[int], models: Sequence[str], count: int) -> tuple[int, ...]:
    """Takes a task's cards out of the idle ones: of one model where one has enough, and of those the one with the fewest."""
    by_model: dict[str, list[int]] = {}
    for card in idle:
        by_model.setdefault(models[card], []).append(card)
    enough = [cards for cards in by_model.values() if len(cards) >= count]
    taken = (min(enough, key=len) if enough else idle)[:count]
    for card in taken:
        idle.remove(card)
    return tuple(taken)


def _others(jobs: dict[str, int] | None, job: str) -> bool:
    return jobs is not None and (len(jobs) > 1 or job not in jobs)


def _count(by_label: dict[Label, dict[str, int]], label: Label, job: str, more: int) -> None:
    jobs = by_label.setdefault(label, {})
    left = jobs.get(job, 0) + more
    if left:
        jobs[job] = left
    else:
        del jobs[job]
        if not jobs:
            del by_label[label]
