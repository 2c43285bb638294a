"""Has hosts added and given back as jobs need them, apart from the controller: imagining takes time, and so do commands.

One turn: 1 see what became of commands and hosts, 2 decide, 3 write, 4 run commands. What is to be done is written before it is
done, under a name of its own; whoever starts anew runs it again for the same name.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from falaj.base.clock import Clock
from falaj.base.errors import FalajError
from falaj.base.failpoints import failpoint
from falaj.base.ids import new_id
from falaj.base.values import Nothing, value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.jobs.engines.engine import Engine
from falaj.jobs.observing import SteadyClock
from falaj.jobs.operations.scheduling import SCALE
from falaj.jobs.pools import moving
from falaj.jobs.pools.commands import Commands, Ended
from falaj.jobs.pools.moving import Moved, Sight
from falaj.jobs.pools.scaling import is_short, steps, wants
from falaj.jobs.pools.seeing import SeenHost, as_seen, pool_host, read_seen, to_remember
from falaj.jobs.pools.values import Pool, PoolHost, of_pool
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import Node, Rules, Seat
from falaj.jobs.standing import Standing
from falaj.jobs.store import attempts, controllers, nodes, pools
from falaj.jobs.turns import Superseded

_SEATS: Final = msgspec.json.Decoder(tuple[Seat, ...])
log = logging.getLogger(__name__)


@value
class _Read:
    """One consistent reading: hosts of pools, which hosts drain, where something runs, and what hosts were seen to have."""

    hosts: tuple[PoolHost, ...]
    draining: frozenset[str]
    busy: frozenset[str]
    unheard: bool
    seen: Mapping[str, SeenHost]


class PoolKeeper:
    """For one thread, under a lease. Two at once harm nothing: the one that took over later writes, the other finds out."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        engines: Mapping[str, Engine],
        *,
        standing: Standing,
        pools: Sequence[Pool],
        rules: Rules,
        folder: Path,
    ) -> None:
        self._database = database
        self._clock = clock
        self._engines = engines
        self._standing = standing
        self._pools = pools
        self._rules = rules
        self._commands = Commands(folder)
        self._time = SteadyClock(clock.now())
        self._epoch: int | None = None
        self._lasting: dict[tuple[str, str], int] = {}  # since when a host is in a state, or idle, by the steady clock
        self._decide_at = 0.0

    def step(self) -> bool:
        if not self._pools:
            return False
        self._time.go_on(self._clock.now())
        try:
            if self._epoch is None:
                self._epoch = self._database.write(lambda work: controllers.take_over(work, controllers.POOLS))
            self._turn(self._epoch)
        except Superseded:
            self._epoch = None
            log.warning("another keeper of pools has taken over")
        return False

    def close(self) -> None:
        self._commands.close()

    # One turn

    def _turn(self, epoch: int) -> None:
        facts = self._standing.facts()
        listed = {name: self._listed(name) for name in {pool.engine for pool in self._pools}}
        read = self._database.read(lambda work: _read(work, epoch))
        known = {node.name: node for node in facts.nodes}
        ended = self._commands.ended()
        moves = self._moves(read, listed, known, ended)
        for host, _ in moves:
            self._lasting.pop((host.name, "idle"), None)  # it counts anew
        now_there = [_after(host, moves) for host in read.hosts]
        hosts = [host for host in now_there if host is not None]
        seen = [row for pool in self._pools if (row := to_remember(pool, hosts, known, read.seen)) is not None]
        by_pool = {**read.seen, **{row.name: row for row in seen}}
        answering = [as_seen(pool, by_pool.get(pool.name)) for pool in self._pools if listed[pool.engine] is not None]
        moves += self._decide(answering, hosts, facts)
        if moves or seen:
            self._database.write(lambda work: self._write(work, epoch, moves, seen))
            failpoint("jobs.pool-written")
        for name in ended:
            self._commands.forget(name)
        self._act(hosts, moves)

    def _listed(self, engine: str) -> frozenset[str] | None:
        """The hosts that an engine has now; None where it does not answer."""
        try:
            return frozenset(node.name for node in self._engines[engine].nodes())
        except (FalajError, KeyError) as error:
            log.debug("the engine %s does not say which hosts it has: %s", engine, error)
            return None

    # 1 What is seen

    def _moves(
        self,
        read: _Read,
        listed: Mapping[str, frozenset[str] | None],
        known: Mapping[str, Node],
        ended: Mapping[str, Ended],
    ) -> list[tuple[PoolHost, Moved]]:
        by_name = {pool.name: pool for pool in self._pools}
        names = sorted({*known, *(name for of_engine in listed.values() for name in of_engine or ())})
        found = []
        for host in read.hosts:
            pool = by_name.get(host.pool)
            if pool is None:
                continue
            node = host.node or next((name for name in names if host.is_called(name)), "")
            there = listed[pool.engine]
            sight = Sight(
                answers=there is not None,
                node=node if there is not None and node in there else "",
                known=node in known,
                draining=node in read.draining,
                busy=node in read.busy,
                unheard=read.unheard,
                ended=ended.get(host.name),
                lasting=self._lasts(host.name, host.state),
            )
            moved = moving.move(pool, host, sight, self._time.now)
            if moved.host != host:
                found.append((host, moved))
        return found

    def _lasts(self, host: str, state: str, *, holds: bool = True) -> int:
        """For how long that has held."""
        if not holds:
            self._lasting.pop((host, state), None)
            return -1
        return self._time.steady - self._lasting.setdefault((host, state), self._time.steady)

    # 2 What is to be done

    def _decide(self, pools: Sequence[Pool], hosts: Sequence[PoolHost], facts: Facts) -> list[tuple[PoolHost, Moved]]:
        """Imagining is done again no sooner than after ten times as long as it took."""
        began = time.monotonic()
        if began < self._decide_at:
            return []
        needed = wants(pools, hosts, facts, self._rules, self._time.now)
        busy = {seat.node for running in facts.running for seat in running.placement}
        found: list[tuple[PoolHost, Moved]] = []
        for pool in pools:
            own, want = of_pool(pool, hosts), needed[pool.name]
            idle = {one.name: self._lasts(one.name, "idle", holds=one.state == "ready" and one.node not in busy) for one in own}
            short = self._lasts(pool.name, "short", holds=is_short(own, want))
            todo = steps(pool, own, want, idle, short)
            by_name = {host.name: host for host in own}
            found += [(by_name[name], moving.drained(by_name[name], self._time.now)) for name in todo.drain]
            quiet = [name for name in todo.give_up if not self._commands.are_about(name)]
            found += [(by_name[name], moving.given_up(by_name[name], self._time.now)) for name in quiet]
            new = [self._new(pool) for _ in range(todo.add)]
            found += [(host, Moved(host=host, action="add")) for host in new]
        ended = time.monotonic()
        self._decide_at = ended + 10 * (ended - began)
        return found

    def _new(self, pool: Pool) -> PoolHost:
        """Under a name that no host ever had."""
        return PoolHost(
            name=f"{pool.name}-{new_id(self._time.now)[-10:]}", pool=pool.name, state="adding", since=self._time.now
        )

    # 3 Writing

    def _write(self, work: UnitOfWork, epoch: int, moves: Sequence[tuple[PoolHost, Moved]], seen: Sequence[SeenHost]) -> None:
        if not controllers.count(work, epoch, controllers.POOLS):
            raise Superseded
        now = self._time.now
        for row in seen:
            pools.put_seen(work, asdict(row))
        for host, moved in moves:
            if moved.host is None:
                pools.remove(work, host.name)
                nodes.remove(work, host.node, now)
            else:
                pools.put(work, asdict(moved.host))
            if moved.action in ("drain", "keep") and host.node:
                nodes.drain(work, host.node, draining=moved.action == "drain", stopping=False, now=now)
            facts = {"action": moved.action, "pool": host.pool, "host": host.name}
            if moved.host is not None and moved.host.trouble:
                facts["words"] = moved.host.trouble
            recording.append(
                work,
                operation=SCALE,
                request=Nothing(),
                identity=None,
                project="",
                now=now,
                request_id="",
                facts=facts,
            )

    # 4 Running commands

    def _act(self, hosts: Sequence[PoolHost], moves: Sequence[tuple[PoolHost, Moved]]) -> None:
        by_name = {pool.name: pool for pool in self._pools}
        present = {host.name: host for host in hosts} | {moved.host.name: moved.host for _, moved in moves if moved.host}
        for host in present.values():
            pool = by_name.get(host.pool)
            due = host.not_before <= self._time.now or host.not_before > self._time.now + moving.LONGEST_PAUSE
            if pool is None or host.state not in ("adding", "removing") or not due or self._commands.are_about(host.name):
                continue
            command = pool.add if host.state == "adding" else pool.remove
            places = {"name": host.name, "host": host.node or host.printed or host.name}
            self._commands.begin(host.name, host.state, command, pool.command_within, places)
            failpoint("jobs.pool-command-begun")
        alive = {*present, *by_name}
        self._lasting = {key: since for key, since in self._lasting.items() if key[0] in alive and self._is_true(key, present)}

    def _is_true(self, key: tuple[str, str], present: Mapping[str, PoolHost]) -> bool:
        name, state = key
        return state in ("idle", "short") or (name in present and present[name].state == state)


def _read(work: UnitOfWork, epoch: int) -> _Read:
    if controllers.epoch(work, controllers.POOLS) != epoch:
        raise Superseded
    busy = {seat.node for row in attempts.going(work) for seat in _SEATS.decode(row.seats)}
    return _Read(
        hosts=tuple(pool_host(row) for row in pools.every(work)),
        draining=frozenset(row.name for row in nodes.every(work) if row.draining),
        busy=frozenset(busy),
        unheard=pools.is_anything_unheard(work),
        seen=read_seen(work),
    )


def _after(host: PoolHost, moves: Sequence[tuple[PoolHost, Moved]]) -> PoolHost | None:
    return next((moved.host for before, moved in moves if before.name == host.name), host)
