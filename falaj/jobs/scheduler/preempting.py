"""Who gives back for whom: which running jobs a waiting one may stop, and the fewest of them that make its place.

Two rights allow it. Within a queue, a higher priority, or where the queue goes by length a shorter job. Between queues, what
was lent: a queue that stays within what it is owed takes it back from those that borrow. Neither right can be used in a circle:
the first follows a fixed order, and who lost its place to the second could come back by it only within its own share.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from falaj.jobs.scheduler.lines import Holding, Lineup, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.ordering import next_step, service
from falaj.jobs.scheduler.quotas import Branch, Charge
from falaj.jobs.scheduler.values import Job, Shape

MOST_VICTIMS: Final = 256  # that are considered for one job
MOST_DROPS: Final = 48
MOST_SEARCHES: Final = 16  # for places in one round; who comes after is looked at when something changes

Amounts = tuple[int, int, int, int]  # CPU, memory, I/O and GPUs of one task
Score = tuple[float, int, int]  # victims per task, minus tasks, how far down the order of preference
Enough = Callable[[Sequence[Holding]], bool]


class Candidates:
    """Those that may be stopped for one job: `reclaimed` first, then those `outranked` in its own queue."""

    def __init__(self) -> None:
        self.reclaimed: list[Holding] = []
        self.outranked: list[Holding] = []
        self.later: int | None = None  # when one more may join them

    def at(self, moment: int | None) -> None:
        if moment is not None:
            self.later = moment if self.later is None else min(self.later, moment)


class Rights:
    """Who may stop whom in one round. What it finds of a queue's jobs it finds once for all who ask."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.searches = 0
        self._mature: dict[tuple[str, int], tuple[list[Holding], int | None]] = {}
        self._by_length: dict[tuple[str, int], tuple[list[tuple[float, Holding]], int | None]] = {}

    def candidates(self, waiting: Waiting, demand: Charge) -> Candidates:
        found = Candidates()
        line = waiting.line
        assert line is not None
        lineup = line.lineup
        if lineup.queue is None:
            return found
        if lineup.queue.preempt:
            self._outranked(lineup, waiting.job, found)
        if lineup.queue.reclaim and lineup.branch is not None and lineup.branch.parent is not None:
            owed = _owed_at(lineup.branch, demand)
            if owed is not None:
                self._reclaimable(lineup.branch, owed, [index for index, _ in demand], found)
        return found

    def _outranked(self, lineup: Lineup, job: Job, found: Candidates) -> None:
        for priority in lineup.holdings:
            if priority < job.priority:
                mature, later = self.mature(lineup, priority)
                found.at(later)
                found.outranked.extend([held for held in mature if held.running.stopping is None and not self._shielded(held)])
            elif priority == job.priority and lineup.by_length:
                longest, later = self._longest(lineup, priority)
                found.at(later)
                to_come = service(job, job.served)
                for length, held in longest:
                    if length <= to_come or len(found.outranked) >= MOST_VICTIMS:
                        break
                    if held.running.stopping is None:
                        found.outranked.append(held)

    def _shielded(self, held: Holding) -> bool:
        return self.memory.shielded.get(held.running.job.id, 0) > self.memory.now

    def mature(self, lineup: Lineup, priority: int) -> tuple[list[Holding], int | None]:
        """Those that had their minimum run, in the order of starting, and when the next one will have had it."""
        known = self._mature.get((lineup.name, priority))
        if known is not None:
            return known
        mature: list[Holding] = []
        later: int | None = None
        for held in lineup.holdings.get(priority, {}).values():
            safe_until = held.running.started + self.memory.rules.least_run
            if safe_until > self.memory.now:
                later = safe_until
                break  # those after it started later still
            if held.running.job.preemptible and held.running.stopping is None:
                mature.append(held)
        self._mature[lineup.name, priority] = mature, later
        return mature, later

    def _longest(self, lineup: Lineup, priority: int) -> tuple[list[tuple[float, Holding]], int | None]:
        """The same by service still to come, the most first, and when that of one whose length nobody knows jumps up."""
        known = self._by_length.get((lineup.name, priority))
        if known is not None:
            return known
        now = self.memory.now
        mature, later = self.mature(lineup, priority)
        longest: list[tuple[float, Holding]] = []
        for held in mature:
            job, served = held.running.job, held.served(now)
            if self._shielded(held):
                continue
            longest.append((service(job, served), held))
            if job.duration <= served:
                jump = now + next_step(job, served)
                later = jump if later is None else min(later, jump)
        longest.sort(key=lambda entry: (-entry[0], entry[1].running.job.id))
        self._by_length[lineup.name, priority] = longest, later
        return longest, later

    def _reclaimable(self, branch: Branch, owed: Branch, needed: list[int], found: Candidates) -> None:
        """Jobs outside `owed` in queues that borrow any of `needed`, on every step from where the ways part down to them."""
        for other in branch.tree.branches:
            lineup = self.memory.lineups.get(other.name)
            if lineup is None or lineup.branch is not other or other is branch or owed in other.path:
                continue
            over = [
                index
                for index in needed
                if all(place.used[index] > place.subtree[index] for place in _own_steps(other, branch))
            ]
            for priority in lineup.holdings if over else ():
                mature, later = self.mature(lineup, priority)
                found.at(later)
                takers = [
                    held for held in mature if held.running.stopping is None and any(index in over for index, _ in held.charge)
                ]
                found.reclaimed.extend(takers)


def _owed_at(branch: Branch, demand: Charge) -> Branch | None:
    """The lowest of a queue and the cohorts above it that stays within what it is owed with this job in it."""
    for place in reversed(branch.path[1:]):
        if all(place.used[index] + amount <= place.subtree[index] for index, amount in demand):
            return place
    return None


def _own_steps(other: Branch, branch: Branch) -> Iterator[Branch]:
    return (place for place in other.path if place not in branch.path)


def preference(now: int, held: Holding, borrower: bool, by_length: bool) -> tuple[object, ...]:
    """Borrowers first, then the lowest standing, then who loses least since its last checkpoint, then the newest."""
    job = held.running.job
    standing = -service(job, held.served(now)) if by_length and not borrower else 0.0
    return (not borrower, job.priority, standing, held.lost(now), -held.running.started, job.id)


def still_borrowing(chosen: Sequence[Holding], branch: Branch) -> list[Holding]:
    """Of victims in order, those from queues that are still over what they are owed once the ones before have gone."""
    gone: dict[tuple[int, int], int] = {}
    kept: list[Holding] = []
    for held in chosen:
        other = held.lineup.branch
        if other is None:
            continue
        steps = list(_own_steps(other, branch))
        over = [
            index
            for index, _ in held.charge
            if all(place.used[index] - gone.get((id(place), index), 0) > place.subtree[index] for place in steps)
        ]
        if over:
            kept.append(held)
            for index, amount in held.charge:
                for place in steps:
                    gone[id(place), index] = gone.get((id(place), index), 0) + amount
    return kept


def fewest(orders: Sequence[Sequence[Holding]], enough: Enough, already: Sequence[Holding]) -> list[Holding] | None:
    """The smallest set that any of these orders leads to: the shortest beginning that is enough, less what it can do without."""
    best: list[Holding] | None = None
    for order in orders:
        tried = list(order[:MOST_VICTIMS])
        if not enough([*already, *tried]):
            continue
        low, high = 0, len(tried)
        while low < high:
            middle = (low + high) // 2
            if enough([*already, *tried[:middle]]):
                high = middle
            else:
                low = middle + 1
        picked = _without_needless(tried[:high], enough, already)
        if best is None or len(picked) < len(best):
            best = picked
    return best


def _without_needless(picked: list[Holding], enough: Enough, already: Sequence[Holding]) -> list[Holding]:
    """Those preferred least are dropped first. The last one is needed: the beginning without it was not enough."""
    for held in list(reversed(picked[:-1]))[:MOST_DROPS]:
        rest = [other for other in picked if other is not held]
        if enough([*already, *rest]):
            picked = rest
    return picked


def by_host(memory: Memory, waiting: Waiting, tasks: int, options: Sequence[Holding]) -> list[Holding]:
    """The same victims host by host, the host that is cheapest to clear for this job first."""
    on_host: dict[str, list[tuple[int, Holding]]] = {}
    for place, held in enumerate(options):
        for node in {seat.node: None for seat in held.running.placement}:
            on_host.setdefault(node, []).append((place, held))
    scored: list[tuple[Score, str, list[Holding]]] = []
    for node, there in on_host.items():
        if node in memory.nodes and memory.nodes[node].zone in waiting.job.zones and memory.nodes[node].open:
            largest = sorted(there, key=lambda entry: -entry[1].rate)
            ways = [_clearing(memory, node, way, waiting.job.shape, tasks) for way in (there, largest)]
            score, chosen = min(ways, key=lambda found: found[0])
            scored.append((score, node, chosen))
    scored.sort(key=lambda entry: entry[:2])
    return list(dict.fromkeys([held for _, _, chosen in scored for held in chosen]))


def _clearing(
    memory: Memory, node: str, there: list[tuple[int, Holding]], shape: Shape, tasks: int
) -> tuple[Score, list[Holding]]:
    """How many must go from a host, in this order, per task that it could then take; of equals, who is preferred decides."""
    free, task, wanted = list(memory.spare[node]), amounts_of(shape), len(there)
    before, worst = min(_times(free, task), tasks), -1
    best: Score = (math.inf, 0, 0)
    for gone, (place, held) in enumerate(there, 1):
        seats = sum([seat.node == node for seat in held.running.placement])
        worst = max(worst, place)
        for index, amount in enumerate(amounts_of(held.running.job.shape)):
            free[index] += amount * seats
        gained = min(_times(free, task), tasks) - before
        score = (gone / gained, -gained, worst) if gained > 0 else best
        if score < best:
            best, wanted = score, gone
    return best, [held for _, held in there[:wanted]]


def largest_first(options: Sequence[Holding]) -> list[Holding]:
    return sorted(options, key=lambda held: -held.rate)


def amounts_of(shape: Shape) -> Amounts:
    return shape.cpu_milli, shape.memory_mib, shape.io, shape.gpus * shape.gpu_milli


def _times(free: Sequence[int], task: Amounts) -> int:
    return min((have // want for have, want in zip(free, task, strict=True) if want > 0), default=1 << 30)
