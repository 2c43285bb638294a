"""Hosts of pools among all others: which pool one is of, and those that are not there yet or not any more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from falaj.database.work import UnitOfWork
from falaj.jobs.operations.nodes import Card, Node
from falaj.jobs.pools.seeing import less_than_declared, pool_host
from falaj.jobs.pools.values import GOING, Pool, PoolHost
from falaj.jobs.scheduler import values
from falaj.jobs.store import pools as store


class PoolView:
    """Thread-safe."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = {pool.name: pool for pool in pools}

    def shown(self, work: UnitOfWork, nodes: Sequence[Node]) -> Iterable[Node]:
        """These, and behind them those of pools that no engine has."""
        hosts = [pool_host(row) for row in store.every(work)]
        by_node = {host.node: host for host in hosts if host.node}
        for node in nodes:
            host = by_node.pop(node.name, None)
            yield node if host is None else self._marked(node, host)
        yield from (self._absent(host) for host in hosts if not host.node or host.node in by_node)

    def _marked(self, node: Node, host: PoolHost) -> Node:
        state = "going" if host.state in GOING else node.state
        return replace(node, pool=host.pool, state=state, flags=(*node.flags, *self._flags(host, _measured(node))))

    def _absent(self, host: PoolHost) -> Node:
        pool = self._pools.get(host.pool)
        what = pool.host if pool is not None else values.Node(name="", zone="", cpu_milli=0, memory_mib=0)
        return Node(
            name=host.name,
            engine=pool.engine if pool is not None else "",
            zone=what.zone,
            rack=what.rack,
            cpus=what.cpu_milli / 1000,
            cpus_free=what.cpu_milli / 1000,
            memory_mib=what.memory_mib,
            memory_mib_free=what.memory_mib,
            cards=tuple(
                Card(index=index, model=model, held=0.0, busy=0.0, memory_mib=0, memory_used_mib=0, jobs=0)
                for index, model in enumerate(what.cards)
            ),
            jobs=0,
            state="going" if host.state in GOING else "starting",
            last_seen=host.since,
            flags=tuple(self._flags(host, None)),
            pool=host.pool,
        )

    def _flags(self, host: PoolHost, node: values.Node | None) -> Iterable[str]:
        pool = self._pools.get(host.pool)
        if pool is None:
            yield f"Its pool {host.pool} is not in the settings any more: give it back by hand."
        elif node is not None and host.state == "ready" and (less := less_than_declared(pool, node)):
            yield less
        if host.tries:
            doing = "Adding" if host.state == "adding" else "Giving"
            back = "" if host.state == "adding" else " back"
            again = f"{str(host.not_before)[:19]}Z"
            yield f"{doing} it{back} failed ({host.tries}), again at {again}: {host.trouble}."
        elif host.trouble:
            yield f"Given back: {host.trouble}."


def _measured(node: Node) -> values.Node:
    return values.Node(
        name=node.name,
        zone=node.zone,
        cpu_milli=round(node.cpus * 1000),
        memory_mib=node.memory_mib,
        cards=tuple(card.model for card in node.cards),
    )
