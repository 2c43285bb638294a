"""How many hosts of each pool are needed, and what follows: decided on values alone, so that it can be tried for any day.

What is needed is asked of the scheduler itself: imagined hosts are put beside those there are, and those without which fewer
jobs would start are needed. So quotas, budgets, gangs, zones and models count as they always do, and a job that waits for its
quota asks for no host.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.pools.values import ON_THE_WAY, Pool, PoolHost, of_pool
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import Job, Node, Rules

MANY: Final = 1000  # waiting jobs, above which only the first of those that are alike are counted
ALIKE: Final = 200
SPANNING: Final = 20  # jobs for which hosts of several pools together are tried
FAILING: Final = 2  # tries, after which what a pool cannot give is sought in the pools behind it


@value
class Want:
    """`hosts`: so many of the pool are needed beside those that are ready. `uses`: hosts on which waiting jobs are to start."""

    hosts: int = 0
    uses: frozenset[str] = frozenset()


@value
class Steps:
    """What is to be done now. `give_up` are hosts that could not be added and that nobody needs any more."""

    add: int = 0
    drain: tuple[str, ...] = ()
    give_up: tuple[str, ...] = ()


NOTHING: Final = Want()


def wants(pools: Sequence[Pool], hosts: Sequence[PoolHost], facts: Facts, rules: Rules, now: Moment) -> dict[str, Want]:
    """By pool. What several could give is asked of the first of them, and of several together only what none could alone."""
    waiting = (facts.heads(ALIKE) if len(facts.waiting) > MANY else facts).waiting
    if not waiting:
        return {pool.name: NOTHING for pool in pools}
    asked = _Asked(pools, hosts, _World(facts, rules, now))
    at_once = _hosts_of(asked.world.starts((), waiting))
    for pool in pools:
        asked.of_one(pool, waiting)
    for job in [job for job in waiting if (job.least or job.count) > 1 and job.id not in asked.served][:SPANNING]:
        asked.of_several(job)
    return {pool.name: Want(hosts=asked.needed[pool.name], uses=at_once | asked.uses) for pool in pools}


def steps(pool: Pool, own: Sequence[PoolHost], want: Want, idle_for: Mapping[str, int], short_for: int) -> Steps:
    """`idle_for`: of ready hosts on which nothing runs, for how long; `short_for`: how long more were needed than come."""
    coming = [host for host in own if host.state in ON_THE_WAY]
    ready = [host for host in own if host.state == "ready"]
    surplus = max(0, len(coming) + len(ready) - pool.least)
    unneeded = max(0, len(coming) - want.hosts)
    failed = [host.name for host in coming if host.state == "adding" and host.tries]
    give_up = failed[: min(surplus, unneeded)]
    cool = sorted(
        (host for host in ready if idle_for.get(host.name, -1) >= pool.cool_down and host.node not in want.uses),
        key=lambda host: (-idle_for[host.name], host.name),
    )
    drain = [host.name for host in cool[: surplus - len(give_up)]]
    short = want.hosts - len(coming) if short_for >= pool.delay else 0
    below = pool.least - len(coming) - len(ready)
    there = sum(host.state != "gone" for host in own)
    add = max(0, min(max(short, below), pool.most - there))
    return Steps(add=add, drain=tuple(drain), give_up=tuple(give_up))


def is_short(own: Iterable[PoolHost], want: Want) -> bool:
    """Whether more are needed than are on their way."""
    return want.hosts > sum(host.state in ON_THE_WAY for host in own)


class _World:
    """How things stand, to which hosts can be added that are not there."""

    def __init__(self, facts: Facts, rules: Rules, now: Moment) -> None:
        self._facts = facts
        self._rules = rules
        self._now = now

    def starts(self, more: Sequence[Node], waiting: Sequence[Job]) -> dict[str, tuple[str, ...]]:
        """Which of these jobs would start now, and on which hosts."""
        imagined = replace(self._facts, nodes=(*self._facts.nodes, *more), waiting=tuple(waiting))
        plan = imagined.scheduler(self._rules).decide(self._now)
        return {start.job: tuple({seat.node for seat in start.placement}) for start in plan.starts}


class _Asked:
    """What has been found to be needed, and for whom."""

    def __init__(self, pools: Sequence[Pool], hosts: Sequence[PoolHost], world: _World) -> None:
        self.world = world
        self.served: dict[str, Job] = {}  # that start on what is needed of pools that can be relied on
        self.needed = {pool.name: 0 for pool in pools}
        self.uses: frozenset[str] = frozenset()
        self._pools = pools
        own = {pool.name: of_pool(pool, hosts) for pool in pools}
        taken = {name: sum(host.state not in (*ON_THE_WAY, "gone") for host in theirs) for name, theirs in own.items()}
        self._limits = {pool.name: max(0, pool.most - taken[pool.name]) for pool in pools}
        self._unsure = {
            name for name, theirs in own.items() if any(host.state == "adding" and host.tries >= FAILING for host in theirs)
        }

    def of_one(self, pool: Pool, waiting: Sequence[Job]) -> None:
        """So few of its hosts let as many jobs start as all that it could have."""
        asking = [job for job in waiting if pool.serves(job) and job.id not in self.served]
        if not asking:
            return
        limit = min(self._limits[pool.name], sum(job.count for job in asking))
        together = [*self.served.values(), *asking]
        best = self._started({pool.name: limit}, together)
        needed = _fewest(limit, lambda count: len(self._started({pool.name: count}, together)) >= len(best))
        self._note({pool.name: needed}, together)

    def of_several(self, job: Job) -> None:
        """Whether all pools together could take a job that none of them can alone, and then with the fewest of the last."""
        pools = [pool for pool in self._pools if pool.serves(job) and pool.name not in self._unsure]
        together = [*self.served.values(), job]
        counts = {pool.name: min(self._limits[pool.name], self.needed[pool.name] + job.count) for pool in pools}
        if len(pools) < 2 or len(self._started(counts, together)) < len(together):
            return
        for pool in reversed(pools):
            name = pool.name

            def enough(count: int, name: str = name) -> bool:
                return len(self._started({**counts, name: count}, together)) >= len(together)

            counts[name] = _fewest(counts[name], enough)
        self._note(counts, together)

    def _started(self, counts: Mapping[str, int], jobs: Sequence[Job]) -> dict[str, tuple[str, ...]]:
        relied_on = {name: count for name, count in self.needed.items() if name not in self._unsure}
        imagined = {**relied_on, **counts}
        more = [node for pool in self._pools for node in pool.imagined(imagined.get(pool.name, 0))]
        return self.world.starts(more, jobs)

    def _note(self, counts: Mapping[str, int], jobs: Sequence[Job]) -> None:
        starts = self._started(counts, jobs)
        self.uses |= _hosts_of(starts)
        self.needed.update(counts)
        if not self._unsure & counts.keys():
            self.served = {job.id: job for job in jobs if job.id in starts}


def _hosts_of(starts: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(node for nodes in starts.values() for node in nodes)


def _fewest(limit: int, enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, where `limit` is."""
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
