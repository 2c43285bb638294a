"""The room of tracking on a database of its own, with callers in two projects who call as the dispatcher would."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import SECOND, Moment
from falaj.base.ids import PrincipalId, ProjectId
from falaj.base.operation import Operation, Record
from falaj.database.binding import Bound
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.tracking.experiments import ExperimentService
from falaj.tracking.models.service import LoggedModelService
from falaj.tracking.operations import experiments, models, runs
from falaj.tracking.operations.words import Metric, Param, Tag
from falaj.tracking.runs import RunService
from tests.servers.tables import make_sqlite_tables

T = TypeVar("T")
Res = TypeVar("Res")
EARLY = Moment(1_800_000_000_000_000)


def metric(key: str, value: float, step: int = 0, at: int = 0) -> Metric:
    return Metric(key=key, value=value, timestamp=at, step=step)


class Caller:
    """Somebody in a project."""

    def __init__(self, room: "Room", project: str, person: str) -> None:
        self.room = room
        self.facts = ProjectFacts(id=ProjectId(hashlib.md5(project.encode()).hexdigest()), name=project, places=())
        principal = PrincipalId(hashlib.md5(person.encode()).hexdigest())
        self.identity = Identity(principal=principal, kind="person", name=person, token=None, zone="home")

    def context(self, work: UnitOfWork) -> Context:
        return Context(work=work, identity=self.identity, project=self.facts, now=self.room.now, request_id="r", facts={})

    def call(self, operation: Operation[Any, Res], **fields: Any) -> Res:
        request = operation.request(project=self.facts.name, **fields)
        bound = self.room.bound[operation.name]
        reads = operation.record is Record.PLAIN_READ
        run = self.room.database.read if reads else self.room.database.write
        result: Res = run(lambda work: bound.handle(self.context(work), request))
        return result

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        return self.room.database.read(function)

    # Experiments

    def new_experiment(self, name: str, **tags: str) -> int:
        return self.call(experiments.CREATE_EXPERIMENT, name=name, tags=pairs(Tag, tags)).id

    def experiment(self, number: int) -> experiments.Experiment:
        return self.call(experiments.SHOW_EXPERIMENT, experiment=number)

    def experiments(self, filter: str = "", *order: str, **fields: Any) -> list[str]:
        return [one.name for one in self.call(experiments.SEARCH_EXPERIMENTS, filter=filter, order=order, **fields).items]

    # Runs

    def start(self, name: str = "", **fields: Any) -> str:
        return self.call(runs.CREATE_RUN, name=name, **fields).info.id

    def log(self, run: str, *metrics: Metric, params: Any = None, tags: Any = None, **fields: Any) -> None:
        given = {"params": pairs(Param, params or {}), "tags": pairs(Tag, tags or {}), **fields}
        self.call(runs.LOG_TO_RUN, run=run, metrics=metrics, **given)

    def run_with(self, name: str, *, metrics: Any = None, params: Any = None, tags: Any = None, **fields: Any) -> str:
        """A run of that name with these last values, a second younger than the one before."""
        self.room.now = Moment(self.room.now + SECOND)
        run = self.start(name, **fields)
        self.log(run, *(metric(key, value) for key, value in (metrics or {}).items()), params=params, tags=tags)
        return run

    def show(self, run: str) -> runs.Run:
        return self.call(runs.SHOW_RUN, run=run)

    def last(self, run: str) -> dict[str, float]:
        return {one.key: one.value for one in self.show(run).metrics}

    def params(self, run: str) -> dict[str, str]:
        return {one.key: one.value for one in self.show(run).params}

    def tags(self, run: str) -> dict[str, str]:
        return {one.key: one.value for one in self.show(run).tags}

    def history(self, run: str, key: str, limit: int = 25_000) -> list[tuple[int, int, float]]:
        """All pages of it: step, time and value."""
        found: list[Metric] = []
        cursor = ""
        while True:
            page = self.call(runs.READ_HISTORY, run=run, key=key, limit=limit, cursor=cursor)
            found += page.items
            if not page.next:
                return [(one.step, one.timestamp, one.value) for one in found]
            cursor = page.next

    def search(self, filter: str = "", *order: str, **fields: Any) -> list[str]:
        """The names of what was found, all pages of it."""
        found: list[str] = []
        cursor = ""
        while True:
            page = self.call(runs.SEARCH_RUNS, filter=filter, order=order, cursor=cursor, **fields)
            found += [one.info.name for one in page.items]
            if not page.next:
                return found
            cursor = page.next

    def new_model(self, name: str = "", run: str = "") -> str:
        return self.call(models.CREATE_LOGGED_MODEL, name=name, run=run).id


class Room:
    def __init__(self, folder: Path, postgres_url: str | None = None) -> None:
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        services = (ExperimentService(), RunService(), LoggedModelService())
        self.bound: dict[str, Bound] = {bound.operation.name: bound for one in services for bound in one.bindings()}
        self.now = EARLY

    def caller(self, project: str = "alpha", person: str = "amal") -> Caller:
        return Caller(self, project, person)


def pairs(kind: Any, given: Any) -> tuple[Any, ...]:
    return tuple(kind(key=key, value=value) for key, value in given.items())
