"""The fewest victims that make a place: of those who may be stopped for a job, which must be.

Hosts are weighed by what would have to go from each, roughly; whether a choice is enough is then asked of the quotas and the
room themselves.
"""

import math
from collections.abc import Sequence
from typing import Final

from falaj.jobs.scheduler.floor import Amounts, amounts_of
from falaj.jobs.scheduler.lines import Holding, Line, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.ordering import width
from falaj.jobs.scheduler.reserving import allowed_after, must_keep
from falaj.jobs.scheduler.values import Job, Placement, Shape

MOST_HOSTS: Final = 4  # that are tried for one task, the cheapest first
MOST_DROPS: Final = 48
A_FEW: Final = 64  # most places are made by one of the most preferred

Score = tuple[float, int, int]  # victims per task, minus tasks, how far down the order of preference


class Search:
    """For the place of one job. `already` are those that give back in any case; `seats` is the place found last."""

    def __init__(self, memory: Memory, line: Line, waiting: Waiting, already: Sequence[Holding]) -> None:
        self.memory, self.line, self.waiting, self.already = memory, line, waiting, list(already)
        self.tasks = line.kind.least
        self.wide = width(waiting.job, self.tasks)
        self.seats: Placement = ()
        self.moving: set[int] = set()  # those that would only move, and so give back no quota
        self._claims = must_keep(memory, waiting)
        self._kept = {node for claim in self._claims for node in claim.nodes}

    def enough(self, picked: Sequence[Holding]) -> bool:
        """Whether it would have its place if these had given back theirs."""
        gone = [*self.already, *picked]
        leaving = [held for held in gone if id(held) not in self.moving] if self.moving else gone
        job = allowed_after(self.memory, self.line, self.waiting.job, self.tasks, leaving)
        placement = self._place(job, gone) if job is not None else None
        if placement is not None:
            self.seats = placement
        return placement is not None

    def _place(self, job: Job, gone: Sequence[Holding]) -> Placement | None:
        """Beside what is kept for others, or where that leaves them theirs."""
        room, without = self.memory.floor.room, [held.running for held in gone]
        placement = room.find(job, self.tasks, without=without, avoiding=self._kept)
        if placement is not None or not self._claims:
            return placement
        placement = room.find(job, self.tasks, without=without)
        return placement if placement is not None and self._leaves_others(placement, gone) else None

    def _leaves_others(self, placement: Placement, gone: Sequence[Holding]) -> bool:
        room, job = self.memory.floor.room, self.waiting.job
        going = {held.running.job.id for held in gone}
        for held in gone:
            room.give(held.running.job, held.running.placement)
        room.take(job, placement)
        kept = True
        for claim in self._claims:
            leaving = [held.running for name, held in claim.yielding.items() if name not in going]
            kept = kept and room.find(claim.waiting.job, claim.tasks, without=leaving) is not None
        room.give(job, placement)
        for held in gone:
            room.take(held.running.job, held.running.placement)
        return kept

    def fewest(self, options: Sequence[Holding], *, has_quota: bool) -> list[Holding] | None:
        """The smallest set found; of equals, those preferred."""
        if self.already and self.enough([]):
            return []
        few = options[:A_FEW]
        found = self._on_one_host(few) if self.tasks == 1 else None
        if found is None and self.tasks == 1 and len(options) > A_FEW:
            found = self._on_one_host(options)
        if self.tasks > 1:
            found = self._beginning(by_host(self.memory, self.waiting, self.tasks, options))
        if not has_quota:
            for order in (options, largest_first(options)):
                other = self._beginning(order)
                if other is not None and (found is None or len(other) < len(found)):
                    found = other
        if found is not None:
            self.enough(found)  # for its seats: those tried last may be another's
        return found

    def _on_one_host(self, options: Sequence[Holding]) -> list[Holding] | None:
        for score, _, chosen, there in _weighed(self.memory, self.waiting, 1, options)[:MOST_HOSTS]:
            if score[0] == math.inf and not self.already:
                return None
            for picked in (chosen, there):
                if self.enough(picked):
                    return self._without_needless(picked)
        return None

    def _beginning(self, order: Sequence[Holding]) -> list[Holding] | None:
        """The shortest beginning that is enough, less what it can do without."""
        if not self.enough(order):
            return None
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self.enough(order[:middle]):
                high = middle
            else:
                low = middle + 1
        return self._without_needless(list(order[:high]))

    def _without_needless(self, picked: list[Holding]) -> list[Holding]:
        """Those preferred least are dropped first."""
        if len(picked) < 2:
            return picked
        for held in list(reversed(picked))[:MOST_DROPS]:
            rest = [other for other in picked if other is not held]
            if self.enough(rest):
                picked = rest
        return picked


def by_host(memory: Memory, waiting: Waiting, tasks: int, options: Sequence[Holding]) -> list[Holding]:
    """Victims host by host, the host that is cheapest to clear for this job first."""
    weighed = _weighed(memory, waiting, tasks, options)
    return list(dict.fromkeys([held for _, _, chosen, _ in weighed for held in chosen]))


def _weighed(
    memory: Memory, waiting: Waiting, tasks: int, options: Sequence[Holding]
) -> list[tuple[Score, str, list[Holding], list[Holding]]]:
    """By host, the cheapest first: which of those on it would have to go for this job, and all of them."""
    on_host: dict[str, list[tuple[int, Holding]]] = {}
    for place, held in enumerate(options):
        for name in {seat.node: None for seat in held.running.placement}:
            on_host.setdefault(name, []).append((place, held))
    weighed: list[tuple[Score, str, list[Holding], list[Holding]]] = []
    shape = waiting.job.shape
    for name, there in on_host.items():
        node = memory.floor.nodes.get(name)
        if node is None or not node.open or node.zone not in waiting.job.zones:
            continue
        way = _clearing(memory, name, there, shape, tasks)
        if len(way[1]) > 1:
            largest = sorted(there, key=lambda entry: -entry[1].rate)
            way = min(way, _clearing(memory, name, largest, shape, tasks), key=lambda one: one[0])
        weighed.append((way[0], name, way[1], [held for _, held in there]))
    weighed.sort(key=lambda entry: entry[:2])
    return weighed


def _clearing(
    memory: Memory, node: str, there: list[tuple[int, Holding]], shape: Shape, tasks: int
) -> tuple[Score, list[Holding]]:
    """How many must go from a host, in this order, per task that it could then take; of equals, who is preferred decides."""
    free, task, wanted = list(memory.floor.spare[node]), amounts_of(shape), len(there)
    before, worst = min(_times(free, task), tasks), -1
    best: Score = (math.inf, 0, 0)
    for gone, (place, held) in enumerate(there, 1):
        placement = held.running.placement
        seats = 1 if len(placement) == 1 else sum([seat.node == node for seat in placement])
        worst = max(worst, place)
        for index, amount in enumerate(amounts_of(held.running.job.shape)):
            free[index] += amount * seats
        gained = min(_times(free, task), tasks) - before
        score = (gone / gained, -gained, worst) if gained > 0 else best
        if score < best:
            best, wanted = score, gone
            if gained == tasks:
                break
    return best, [held for _, held in there[:wanted]]


def largest_first(options: Sequence[Holding]) -> list[Holding]:
    return sorted(options, key=lambda held: -held.rate)


def _times(free: Sequence[int], task: Amounts) -> int:
    times = 1 << 30
    for have, want in zip(free, task, strict=True):
        if want > 0 and have // want < times:
            times = have // want
    return times
