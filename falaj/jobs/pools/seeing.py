"""What hosts of pools really have, which may not be what was declared; and their rows as they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.pools.values import Pool, PoolHost, of_pool
from falaj.jobs.scheduler.values import Node
from falaj.jobs.store import pools as store
from falaj.jobs.store.tables import Found


def pool_host(row: Found) -> PoolHost:
    return PoolHost(
        name=row.name,
        pool=row.pool,
        state=row.state,
        node=row.node,
        printed=row.printed,
        tries=row.tries,
        not_before=Moment(row.not_before),
        since=Moment(row.since),
        trouble=row.trouble,
    )


@value
class SeenHost:
    """What hosts of a pool were seen to have (`facts`), and what they were `declared` to have then; both as JSON."""

    name: str  # of the pool
    declared: str
    facts: str


def read_seen(work: UnitOfWork) -> dict[str, SeenHost]:
    """By pool."""
    return {row.name: SeenHost(name=row.name, declared=row.declared, facts=row.facts) for row in store.seen(work)}


def as_seen(pool: Pool, seen: SeenHost | None) -> Pool:
    """With what its hosts were seen to have, where that is not what was declared: else ever more would be added that do not do.
    Whoever declares something else is believed again."""
    if seen is None or seen.declared != _written(pool.host):
        return pool
    return replace(pool, host=msgspec.json.decode(seen.facts, type=Node))


def to_remember(
    pool: Pool, hosts: Sequence[PoolHost], known: Mapping[str, Node], seen: Mapping[str, SeenHost]
) -> SeenHost | None:
    """Where hosts that are there have something else than was seen before."""
    there = [known[host.node] for host in of_pool(pool, hosts) if host.state == "ready" and host.node in known]
    if not there:
        return None
    smallest = min(there, key=lambda node: (node.cpu_milli, node.memory_mib, node.cards, node.name))
    real = replace(
        pool.host,
        zone=smallest.zone,
        cpu_milli=smallest.cpu_milli,
        memory_mib=smallest.memory_mib,
        cards=smallest.cards,
        io=smallest.io,
        sharing=smallest.sharing,
    )
    found = SeenHost(name=pool.name, declared=_written(pool.host), facts=_written(real))
    return None if seen.get(pool.name) == found else found


def less_than_declared(pool: Pool, node: Node) -> str:
    """What one that is there lacks of what its pool says, in words; empty where it lacks nothing."""
    declared = pool.host
    lacks = [
        f"{real:g} of {said:g} {what}"
        for what, real, said in (
            ("CPUs", node.cpu_milli / 1000, declared.cpu_milli / 1000),
            ("MiB of memory", node.memory_mib, declared.memory_mib),
            ("GPUs", len(node.cards), len(declared.cards)),
        )
        if real < said
    ]
    if node.zone != declared.zone:
        lacks.append(f"it is in zone {node.zone}, not in {declared.zone}")
    if declared.cards and node.cards and set(node.cards) != set(declared.cards):
        lacks.append(f"its GPUs are {node.cards[0]}, not {declared.cards[0]}")
    return f"Not what pool {pool.name} says: {', '.join(lacks)}." if lacks else ""


def _written(node: Node) -> str:
    return msgspec.json.encode(node).decode()
