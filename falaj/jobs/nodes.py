"""Hosts: what they have and do, and letting nothing new start on one."""

from collections.abc import Iterable, Mapping, Sequence

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.jobs.cards import CardState, states_of
from falaj.jobs.operations import nodes as declared
from falaj.jobs.operations.nodes import Card, Node
from falaj.jobs.outcomes import span_text
from falaj.jobs.pools.showing import PoolView
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import CARD, Running
from falaj.jobs.silences import silence
from falaj.jobs.standing import Standing, node_of
from falaj.jobs.store import engines
from falaj.jobs.store import nodes as store
from falaj.jobs.store.tables import Found

SILENT = 60 * SECOND  # one that is well is written down again much sooner
IDLE = 2 * MINUTE  # from then on a card that is held is said to do nothing
FULL = 0.97
EXPERIMENTAL = ("kubernetes",)  # engines that have not been run where they are meant to


class NodeService:
    def __init__(self, standing: Standing, pools: PoolView) -> None:
        self._standing = standing
        self._pools = pools

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.LIST_NODES, self._stands, self.list),
            bind_prepared(declared.DRAIN_NODE, self._stands, self.drain),
            bind_prepared(declared.RESUME_NODE, self._stands, self.resume),
        ]

    def list(self, context: Context, request: Nothing, facts: Facts) -> declared.Nodes:
        silent = engines.silent(context.work)
        found = [_node(row, facts.running, silent, context.now) for row in store.every(context.work)]
        return declared.Nodes(items=tuple(self._pools.shown(context.work, found)))

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
        node = _node(found, facts.running, engines.silent(context.work), context.now)
        return next(iter(self._pools.shown(context.work, [node])))

    def _stands(self, context: Context, request: object) -> Facts:
        return self._standing.facts()


def _node(row: Found, running: Iterable[Running], silent: Mapping[str, Moment], now: Moment) -> Node:
    node = node_of(row)
    here = [(one, seat) for one in running for seat in one.placement if seat.node == row.name]
    cpu = sum(one.job.shape.cpu_milli for one, _ in here)
    memory = sum(one.job.shape.memory_mib for one, _ in here)
    jobs = {one.job.id for one, _ in here}
    held: dict[int, list[Running]] = {}
    for one, seat in here:
        for card in seat.cards:
            held.setdefault(card, []).append(one)
    states = states_of(row.cards) if _is_fresh(row, now) else ()
    cards = tuple(_card(index, model, held, states, now) for index, model in enumerate(node.cards))
    return Node(
        name=row.name,
        engine=row.engine,
        zone=row.zone,
        rack=node.rack,
        cpus=node.cpu_milli / 1000,
        cpus_free=(node.cpu_milli - cpu) / 1000,
        memory_mib=node.memory_mib,
        memory_mib_free=node.memory_mib - memory,
        cards=cards,
        jobs=len(jobs),
        state=_state(row, bool(jobs), silent, now),
        last_seen=Moment(row.seen),
        flags=tuple(_flags(row, cards, silent.get(row.engine), now)),
    )


def _state(row: Found, is_used: bool, silent: Mapping[str, Moment], now: Moment) -> str:
    if row.lost is not None:
        return "lost"
    if row.draining:
        return "draining" if is_used else "drained"
    return "silent" if row.engine in silent or not _is_fresh(row, now) else "ready"


def _card(index: int, model: str, held: Mapping[int, list[Running]], states: Sequence[CardState | None], now: Moment) -> Card:
    jobs = held.get(index, [])
    part = sum(one.job.shape.gpu_milli for one in jobs) / CARD
    state = states[index] if index < len(states) else None
    idle = None if state is None or not jobs else state.idle_since
    return Card(
        index=index,
        model=model,
        held=part,
        busy=0.0 if state is None else state.busy,
        memory_mib=0 if state is None else state.memory_mib,
        memory_used_mib=0 if state is None else state.memory_used_mib,
        jobs=len(jobs),
        idle_since=Moment(idle) if idle is not None and now - idle >= IDLE else None,
        measured=state is not None,
    )


def _is_fresh(row: Found, now: Moment) -> bool:
    return row.lost is None and now - row.seen <= SILENT


def _flags(row: Found, cards: Iterable[Card], silent_since: Moment | None, now: Moment) -> Iterable[str]:
    if silent_since is not None:
        yield silence(row.engine, silent_since)
    elif row.lost is None and not _is_fresh(row, now):
        yield f"Silent for {(now - row.seen) // SECOND} s."
    if row.engine in EXPERIMENTAL:
        yield "Its engine is experimental."
    for card in cards:
        if card.idle_since is not None:
            yield f"GPU {card.index} is held and has done nothing for {span_text((now - card.idle_since) / SECOND)}."
        if card.memory_mib and card.memory_used_mib >= FULL * card.memory_mib:
            yield f"The memory of GPU {card.index} is {card.memory_used_mib / card.memory_mib:.0%} full."
