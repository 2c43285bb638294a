"""What pools mean to a job that waits: whether a host that can be had could take it, and how far that is."""

from collections.abc import Sequence
from dataclasses import replace

from falaj.base.clock import SECOND, Moment
from falaj.database.work import Database
from falaj.jobs.pools.seeing import as_seen, pool_host, read_seen
from falaj.jobs.pools.values import ON_THE_WAY, Pool, PoolHost, of_pool
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Job
from falaj.jobs.store import pools as store


class PoolOutlook:
    """Thread-safe."""

    def __init__(self, database: Database, pools: Sequence[Pool]) -> None:
        self._database = database
        self._pools = tuple(pools)

    def with_all(self, facts: Facts, job: Job) -> Facts | None:
        """How things would stand with every host that can be had for a job; None where none can."""
        more = [node for pool in self._serving(job) for node in pool.imagined(pool.most)]
        return replace(facts, nodes=(*facts.nodes, *more)) if more else None

    def words(self, facts: Facts, job: Job, now: Moment) -> str:
        """What pools do about a job that waits for room; empty where they cannot do anything."""
        serving = self._serving(job)
        able = [pool for pool in serving if _takes_a_task(pool, job)]
        every = [node for pool in serving for node in pool.imagined(pool.most)]
        if not able or Room((*facts.nodes, *every)).could_ever(job, job.least or job.count):
            return ""
        hosts = [pool_host(row) for row in self._database.read(store.every)]
        for pool in able:
            coming = [host for host in of_pool(pool, hosts) if host.state in ON_THE_WAY]
            if coming:
                return _on_its_way(pool, coming[0], now)
        free = next((pool for pool in able if sum(host.state != "gone" for host in of_pool(pool, hosts)) < pool.most), None)
        if free is not None:
            return f"A host of pool {free.name} is asked for, should it still wait in {free.delay // SECOND} s."
        full = able[0]
        return f"Pool {full.name} has as many hosts as it may have ({full.most}), so none is added."

    def _serving(self, job: Job) -> list[Pool]:
        serving = [pool for pool in self._pools if pool.serves(job)]
        if not serving:
            return []
        seen = self._database.read(read_seen)
        return [as_seen(pool, seen.get(pool.name)) for pool in serving]


def _takes_a_task(pool: Pool, job: Job) -> bool:
    one = replace(job, count=1, least=0, topology="any")
    return not Room(pool.imagined(1)).could_ever(one, 1)


def _on_its_way(pool: Pool, host: PoolHost, now: Moment) -> str:
    """What a command said is for operators alone."""
    if not host.tries:
        return f"Host {host.name} of pool {pool.name} is on its way, for {max(0, now - host.since) // SECOND} s now."
    many = "once" if host.tries == 1 else f"{host.tries} times"
    at = f"{str(host.not_before)[11:19]}Z"
    return f"A host of pool {pool.name} is asked for, and that failed {many}; it is tried again at {at}."
