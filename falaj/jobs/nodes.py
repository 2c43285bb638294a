"""Hosts: what they have and do, and letting nothing new start on one."""

from collections.abc import Iterable, Mapping

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.jobs.operations import nodes as declared
from falaj.jobs.operations.nodes import Card, Node
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import CARD, Running
from falaj.jobs.standing import Standing, node_of
from falaj.jobs.store import nodes as store
from falaj.jobs.store.tables import Found

SILENT = 60 * SECOND
EXPERIMENTAL = ("kubernetes",)  # engines that have not been run where they are meant to


class NodeService:
    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.LIST_NODES, self._stands, self.list),
            bind_prepared(declared.DRAIN_NODE, self._stands, self.drain),
            bind_prepared(declared.RESUME_NODE, self._stands, self.resume),
        ]

    def list(self, context: Context, request: Nothing, facts: Facts) -> declared.Nodes:
        return declared.Nodes(items=tuple(_node(row, facts.running, context.now) for row in store.every(context.work)))

    def drain(self, context: Context, request: declared.Drain, facts: Facts) -> Node:
        return self._set(context, request.node, facts, draining=True, stopping=request.stop)

    def resume(self, context: Context, request: declared.Resume, facts: Facts) -> Node:
        return self._set(context, request.node, facts, draining=False, stopping=False)

    def _set(self, context: Context, name: str, facts: Facts, *, draining: bool, stopping: bool) -> Node:
        if not store.drain(context.work, name, draining=draining, stopping=stopping, now=context.now):
            raise NotFound(f"There is no host {name!r}; `falaj node list` shows those there are.")
        found = store.find(context.work, name)
        if found is None:
            raise NotFound(f"There is no host {name!r} any more.")
        return _node(found, facts.running, context.now)

    def _stands(self, context: Context, request: object) -> Facts:
        return self._standing.facts()


def _node(row: Found, running: Iterable[Running], now: Moment) -> Node:
    node = node_of(row)
    here = [(one, seat) for one in running for seat in one.placement if seat.node == row.name]
    cpu = sum(one.job.shape.cpu_milli for one, _ in here)
    memory = sum(one.job.shape.memory_mib for one, _ in here)
    jobs = {one.job.id for one, _ in here}
    held: dict[int, list[Running]] = {}
    for one, seat in here:
        for card in seat.cards:
            held.setdefault(card, []).append(one)
    state = "lost" if row.lost is not None else "ready" if not row.draining else "draining" if jobs else "drained"
    return Node(
        name=row.name,
        engine=row.engine,
        zone=row.zone,
        rack=node.rack,
        cpus=node.cpu_milli / 1000,
        cpus_free=(node.cpu_milli - cpu) / 1000,
        memory_mib=node.memory_mib,
        memory_mib_free=node.memory_mib - memory,
        cards=tuple(_card(index, model, held) for index, model in enumerate(node.cards)),
        jobs=len(jobs),
        state=state,
        last_seen=Moment(row.seen),
        flags=tuple(_flags(row, now)),
    )


def _card(index: int, model: str, held: Mapping[int, list[Running]]) -> Card:
    jobs = held.get(index, [])
    part = sum(one.job.shape.gpu_milli for one in jobs) / CARD
    return Card(index=index, model=model, held=part, busy=0.0, memory_mib=0, memory_used_mib=0, jobs=len(jobs))


def _flags(row: Found, now: Moment) -> list[str]:
    silent = now - row.seen
    flags = [f"Silent for {silent // SECOND} s."] if row.lost is None and silent > SILENT else []
    return [*flags, "Its engine is experimental."] if row.engine in EXPERIMENTAL else flags
