"""A small cluster for the tests of the controller: real database, ledger, keys and blobs, engines whose attempts are timers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from falaj.app.jobs import JobRuns
from falaj.base.clock import SECOND, Clock, Moment
from falaj.base.ids import ProjectId, new_id
from falaj.base.operation import Group, Permission
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Database, UnitOfWork
from falaj.governance.identity.minting import Bounds, mint
from falaj.governance.identity.store import add_principal, principal_named
from falaj.governance.projects.store import add_project, project_named
from falaj.governance.zones.residency import ProjectZones
from falaj.governance.zones.store import Zone, add_zone
from falaj.jobs.controller import Controller
from falaj.jobs.engines.engine import Engine
from falaj.jobs.keeping import LogKeeper
from falaj.jobs.launching import Launcher, Rights
from falaj.jobs.observing import Patience
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.orders import order_of, write_order
from falaj.jobs.pricing import FREE, Pricer
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Node
from falaj.jobs.secrets import ProjectSecrets
from falaj.jobs.store import attempts, events, jobs, tables
from falaj.jobs.store.tables import Found
from falaj.jobs.views import spec_written
from falaj.keys.file import FileKeyRing
from falaj.storage.folder import FolderBlobs
from falaj.storage.service import BlobService
from falaj.testing.timers import TimerEngine
from tests.jobs.first_fit import FirstFit
from tests.servers.tables import make_sqlite_tables

START = Moment.parse("2026-11-15T09:00:00Z")
PERMISSIONS = {
    name: Permission(name=name, group=group) for name, group in (("run.read", Group.READ), ("run.create", Group.WRITE))
}
QUICK = Patience(silent=20 * SECOND, missing=4 * SECOND, unstarted=30 * SECOND, nodes=SECOND)


class HandClock:
    """Stands still until it is moved; may be moved back."""

    def __init__(self, moment: Moment = START) -> None:
        self.moment = moment

    def now(self) -> Moment:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment = Moment(self.moment + round(seconds * SECOND))


def node(name: str, cpus: int = 4, cards: Sequence[str] = (), zone: str = "home") -> Node:
    return Node(name=name, zone=zone, cpu_milli=cpus * 1000, memory_mib=64_000, cards=tuple(cards))


class Cluster:
    def __init__(
        self, folder: Path, clock: Clock, postgres_url: str | None = None, engines: Mapping[str, Engine] | None = None
    ) -> None:
        self.clock = clock
        if postgres_url is None:
            make_sqlite_tables(folder / "falaj.db")
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(folder / "falaj.db")
        ring = self.ring = FileKeyRing.open_or_create(
            folder / "keys", escrow=folder / "escrow.json", clock=clock, home_exists=(folder / "keys").exists()
        )
        self.blobs = BlobService({"local": FolderBlobs(folder / "blobs")}, ring, clock, ProjectZones())
        self.secrets = ProjectSecrets(ring)
        self.timers = TimerEngine("timers", [node("n1"), node("n2")], clock)
        self.engines: Mapping[str, Engine] = {"timers": self.timers} if engines is None else engines
        self.schedulers: list[FirstFit] = []
        self.project, self.user, self.token = self.database.write(self._bootstrap)

    def _bootstrap(self, work: UnitOfWork) -> tuple[str, str, str]:
        """What a first start makes; a second one finds it."""
        now, known = self.clock.now(), project_named(work, "default")
        owner = principal_named(work, "owner")
        if known is None or owner is None:
            zone = Zone(name="home", country="AE", jurisdictions=(), storage="local", engines=(), created=now)
            add_zone(work, zone)
            add_zone(work, replace(zone, name="away"))
            add_project(work, id=ProjectId(new_id(now)), name="default", description="", zones=("home", "away"), now=now)
            add_principal(work, kind="person", name="owner", now=now)
            return self._bootstrap(work)
        return known.id, owner.id, self.new_token(work, owner.id)

    def new_token(self, work: UnitOfWork, principal: str, **bounds: Any) -> str:
        wide = Bounds(
            scopes=frozenset(), projects=frozenset(), zone="", expires=Moment(START + 366 * 24 * 3600 * SECOND), reach=None
        )
        return mint(
            work,
            principal=principal,
            kind="api",
            label="t",
            bounds=replace(wide, **bounds),
            parent=None,
            now=self.clock.now(),
        ).id

    def controller(self, pricer: Pricer = FREE, patience: Patience = QUICK, *, real: bool = False) -> Controller:
        """With a scheduler that only fills what is free, or with the `real` one."""

        def make(*arguments: Any, **named: Any) -> FirstFit:
            self.schedulers.append(FirstFit(*arguments, **named))
            return self.schedulers[-1]

        return Controller(
            self.database,
            self.clock,
            self.engines,
            launcher=self.launcher(),
            runs=JobRuns(),
            pricer=pricer,
            patience=patience,
            make_scheduler=Scheduler if real else make,
        )

    def launcher(self) -> Launcher:
        return Launcher(
            self.database,
            blobs=self.blobs,
            secrets=self.secrets,
            rights=Rights(
                scopes=frozenset({"read", "write"}), permissions=PERMISSIONS, may_submit=lambda work, identity, project: True
            ),
            platform_url="http://platform",
        )

    def log_keeper(self) -> LogKeeper:
        return LogKeeper(self.database, self.blobs, self.engines, self.clock)

    # Jobs

    def row(self, *command: str, token: str = "", kin: str = "", **fields: Any) -> dict[str, Any]:
        spec = Spec(**{"command": ("timer", *command), "name": "job", "queue": "default", "zone": "home", **fields})
        now, id = self.clock.now(), new_id(self.clock.now())
        order = order_of(
            spec,
            id=id,
            project=self.project,
            user=self.user,
            queue=spec.queue,
            priority=0,
            zone=spec.zone,
            now=now,
        )
        return {
            "id": id,
            "project": self.project,
            "name": spec.name,
            "queue": spec.queue,
            "priority": "normal",
            "zone": spec.zone,
            "spec": spec_written(spec),
            "order": write_order(order),
            "submitted": int(now),
            "submitted_by": self.user,
            "token": token or self.token,
            "retries": spec.retries,
            "kin": kin,
        }

    def submit(self, *command: str, **fields: Any) -> str:
        row = self.row(*command, **fields)
        self.add([row])
        return str(row["id"])

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.database.write(lambda work: jobs.add(work, rows, self.clock.now()))

    def cancel(self, job: str) -> None:
        assert self.database.write(lambda work: jobs.want_cancelled(work, job, self.clock.now()))

    # Looking

    def job(self, id: str) -> Found:
        found = self.database.read(lambda work: jobs.find(work, self.project, id))
        assert found is not None
        return found

    def tries(self, id: str) -> list[Found]:
        """Oldest first."""
        return list(reversed(self.database.read(lambda work: attempts.of_job(work, self.project, id))))

    def told(self, id: str) -> list[str]:
        """The kinds of what happened to it."""
        return [row.kind for row in self.database.read(lambda work: events.page(work, self.project, id, "", 1000))]

    def words(self, id: str) -> list[str]:
        return [row.words for row in self.database.read(lambda work: events.page(work, self.project, id, "", 1000))]

    def rows(self, table: Any) -> list[Found]:
        return list(self.database.read(lambda work: work.execute(select(table)).all()))

    def states(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for row in self.rows(tables.jobs):
            counted[row.state] = counted.get(row.state, 0) + 1
        return counted


def run(cluster: Cluster, controller: Controller, seconds: float, each: float = 1.0) -> None:
    """Let time go by, a step at a time."""
    assert isinstance(cluster.clock, HandClock)
    for _ in range(round(seconds / each)):
        cluster.clock.forward(each)
        settle(controller)


def settle(controller: Controller, most: int = 20) -> None:
    for _ in range(most):
        if not controller.step():
            return
    raise AssertionError("it never comes to rest")


def spec_of(row: Found) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(row.spec)
    return read
