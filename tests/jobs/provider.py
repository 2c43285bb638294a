"""A provider of hosts that is a folder: what its commands put there, an engine has as a host; what they take away is gone."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from falaj.base.clock import SECOND, Clock
from falaj.jobs.controller import SHIPPED_RULES
from falaj.jobs.pools.keeper import PoolKeeper
from falaj.jobs.pools.seeing import pool_host
from falaj.jobs.pools.values import Pool, PoolHost
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import Node
from falaj.jobs.standing import Standing
from falaj.jobs.store import pools as store
from falaj.testing.timers import TimerEngine
from tests.jobs.cluster import Cluster

HOST = Node(name="", zone="home", cpu_milli=4000, memory_mib=16_000)
ENGINE = "timers"


class ProvidedEngine(TimerEngine):
    """Its hosts are those that somebody put into a folder."""

    def __init__(self, name: str, folder: Path, clock: Clock, keeps: Path | None = None) -> None:
        super().__init__(name, (), clock, keeps)
        self._provided = folder

    def nodes(self) -> Sequence[Node]:
        self._reach()
        made = sorted(self._provided.glob("*.host"))
        return [replace(HOST, name=file.stem, **json.loads(file.read_text() or "{}")) for file in made]


def provided(folder: Path, name: str = "burst", **changes: Any) -> Pool:
    """A pool whose commands are `cp` and `rm`."""
    (folder / "made").mkdir(exist_ok=True)
    pattern = folder / "pattern"
    if not pattern.exists():
        pattern.write_text("{}")
    there = str(folder / "made" / "{name}.host")
    given: dict[str, Any] = {
        "name": name,
        "engine": ENGINE,
        "host": HOST,
        "most": 3,
        "add": ("cp", str(pattern), there),
        "remove": ("rm", "-f", there),
        "delay": 0,
        "cool_down": 30 * SECOND,
        "starts_within": 60 * SECOND,
        "command_within": 10 * SECOND,
    }
    return Pool(**given | changes)


class StandingNow(Standing):
    """How things stand at this very moment, for tests in which much happens in one."""

    def facts(self) -> Facts:
        return Standing(self._database, self._clock, self._half_life).facts()


def keeper_of(cluster: Cluster, folder: Path, *pools: Pool) -> PoolKeeper:
    return PoolKeeper(
        cluster.database,
        cluster.clock,
        cluster.engines,
        standing=StandingNow(cluster.database, cluster.clock, SHIPPED_RULES.half_life),
        pools=pools,
        rules=SHIPPED_RULES,
        folder=folder / "commands",
    )


def hosts_of(cluster: Cluster) -> list[PoolHost]:
    return [pool_host(row) for row in cluster.database.read(store.every)]
