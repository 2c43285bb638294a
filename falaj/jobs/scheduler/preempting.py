"""Who may be stopped for whom.

Two rights allow it. Within a queue, a higher priority, or where the queue goes by length a shorter job. Between queues, what
was lent: a queue that stays within what it is owed takes it back from those that borrow. Neither right can be used in a circle:
the first follows a fixed order, and who lost its place to the second could come back by it only within its own share.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from falaj.jobs.scheduler.lines import Holding, Lineup, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.ordering import service
from falaj.jobs.scheduler.quotas import Branch, Charge
from falaj.jobs.scheduler.values import Job

MOST_VICTIMS: Final = 2048  # that are considered for one job
MOST_SEARCHES: Final = 8  # for places in one round; who comes after is looked at when something changes

Some = tuple[list[Holding], int | None]  # in order of preference, and when one more may join them


class Candidates:
    """Those that may be stopped for one job, in order of preference: `reclaimed` first, then those `outranked` in its queue."""

    def __init__(self) -> None:
        self.reclaimed: list[Holding] = []
        self.outranked: list[Holding] = []
        self.young: list[Holding] = []  # those that borrow and have not had their minimum run
        self.later: int | None = None  # when one more may join them

    def at(self, moment: int | None) -> None:
        if moment is not None:
            self.later = moment if self.later is None else min(self.later, moment)


class Rights:
    """Who may stop whom in one round. What it finds of a queue's jobs it finds once for all who ask."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.searches = 0
        self._mature: dict[tuple[str, int], Some] = {}
        self._longest: dict[tuple[str, int], Some] = {}

    def candidates(self, waiting: Waiting, demand: Charge) -> Candidates:
        found = Candidates()
        line = waiting.line
        assert line is not None  # nosec B101 - said for the types alone
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
        """The lowest priority first; within one, where the queue goes by length, the longest, else who loses least."""
        for priority in sorted(lineup.holdings):
            if priority < job.priority:
                some, later = self._by_length(lineup, priority) if lineup.by_length else self.mature(lineup, priority)
                found.outranked.extend([held for held in some if held.running.stopping is None and not self._shielded(held)])
                found.at(later)
            elif priority == job.priority and lineup.by_length:
                found.outranked.extend(self._longer(lineup, job, found))
            if len(found.outranked) >= MOST_VICTIMS:
                return

    def _longer(self, lineup: Lineup, job: Job, found: Candidates) -> Iterator[Holding]:
        to_come, now = service(job, job.served), self.memory.now
        most, until = lineup.most_to_come(job.priority, now)
        if most <= to_come:
            found.at(until)
            return
        some, later = self._by_length(lineup, job.priority)
        found.at(later)
        for held in some:
            if held.to_come(now) <= to_come:
                break
            if held.running.stopping is None and not self._shielded(held) and job.id not in held.made_way:
                yield held

    def shorter(self, lineup: Lineup, job: Job) -> list[Holding]:
        """Those of its priority that stand before it, longest first: they are not outranked, but may be moved."""
        to_come, now = service(job, job.served), self.memory.now
        some, _ = self._by_length(lineup, job.priority)
        free = [held for held in some if held.running.stopping is None and not self._shielded(held)]
        return [held for held in free if held.to_come(now) <= to_come]

    def of_tree(self, lineup: Lineup, most: int) -> list[Holding]:
        """Those of all queues of a tree that can take back a place themselves, had their minimum run and may be stopped at all;
        none where there are too many."""
        assert lineup.branch is not None  # nosec B101 - said for the types alone
        branches = lineup.branch.tree.branches
        lineups = [one for one in self.memory.lineups.values() if one.branch in branches and one.queue and one.queue.reclaim]
        running = [(other, priority) for other in lineups for priority in other.holdings]
        if sum([len(other.holdings[priority]) for other, priority in running]) > most:
            return []
        some = [held for other, priority in running for held in self.mature(other, priority)[0]]
        return [held for held in some if held.running.stopping is None and not self._shielded(held)]

    def _shielded(self, held: Holding) -> bool:
        return self.memory.shielded.get(held.running.job.id, 0) > self.memory.now

    def mature(self, lineup: Lineup, priority: int) -> Some:
        """Those that had their minimum run, who loses least first, and when the next one will have had it."""
        known = self._mature.get((lineup.name, priority))
        if known is not None:
            return known
        now = self.memory.now
        mature: list[Holding] = []
        later: int | None = None
        for held in lineup.holdings.get(priority, {}).values():
            safe_until = self.safe_until(held)
            if safe_until > now:
                later = safe_until
                break  # those after it started later still
            if held.running.job.preemptible and held.running.stopping is None:
                mature.append(held)
        mature.sort(key=lambda held: (held.lost(now), -held.running.started, held.running.job.id))
        self._mature[lineup.name, priority] = mature, later
        return mature, later

    def safe_until(self, held: Holding) -> int:
        return held.running.started + max(1, self.memory.rules.least_run)

    def _young(self, lineup: Lineup, priority: int, over: list[int]) -> Iterator[Holding]:
        for held in reversed(lineup.holdings[priority].values()):
            if self.safe_until(held) <= self.memory.now:
                return
            if (
                held.running.job.preemptible
                and held.running.stopping is None
                and any(index in over for index, _ in held.charge)
            ):
                yield held

    def _by_length(self, lineup: Lineup, priority: int) -> Some:
        """The same, the most service still to come first, and when that of one whose length nobody knows jumps up."""
        known = self._longest.get((lineup.name, priority))
        if known is not None:
            return known
        now = self.memory.now
        mature, later = self.mature(lineup, priority)
        longest = sorted(mature, key=lambda held: -held.to_come(now))
        for held in mature:
            if held.running.job.duration <= held.served(now):
                jump = held.jumps(now)
                later = jump if later is None else min(later, jump)
        self._longest[lineup.name, priority] = longest, later
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
                if later is not None:
                    found.young.extend(self._young(lineup, priority, over))
                borrowed = [
                    held for held in mature if held.running.stopping is None and any(index in over for index, _ in held.charge)
                ]
                found.reclaimed.extend(borrowed)
        now = self.memory.now
        found.reclaimed.sort(
            key=lambda held: (held.running.job.priority, held.lost(now), -held.running.started, held.running.job.id)
        )
        found.reclaimed = still_borrowing(found.reclaimed[:MOST_VICTIMS], branch)


def _owed_at(branch: Branch, demand: Charge) -> Branch | None:
    """The lowest of a queue and the cohorts above it that stays within what it is owed with this job in it."""
    for place in reversed(branch.path[1:]):
        if all(place.used[index] + amount <= place.subtree[index] for index, amount in demand):
            return place
    return None


def _own_steps(other: Branch, branch: Branch) -> Iterator[Branch]:
    return (place for place in other.path if place not in branch.path)


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
