"""The room of lineage on a database of its own, with callers in two projects and records that a test fills in."""

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import Moment
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.lineage import operations as declared
from falaj.lineage.events import RunFacts
from falaj.lineage.graph import Node, link
from falaj.lineage.service import LineageService
from tests.servers.tables import make_sqlite_tables

T = TypeVar("T")
EARLY = Moment(1_800_000_000_000_000)


def run(number: int, label: str = "") -> Node:
    return Node(kind="run", id=f"{number:032x}", label=label)


def dataset(name: str, digest: str = "d1") -> Node:
    return Node(kind="dataset", id=f"{name}@{digest}", label=f"{name} @ {digest}")


def model(number: int) -> Node:
    return Node(kind="model", id=f"m-{number:032x}", label=f"model {number}")


def version(number: int, label: str = "") -> Node:
    return Node(kind="version", id=f"{number:032x}", label=label)


class Remembered:
    """What the test says about runs and datasets."""

    def __init__(self) -> None:
        self.facts: dict[str, RunFacts] = {}
        self.schema: dict[str, str] = {}

    def runs(self, context: Context, ids: Sequence[str]) -> Mapping[str, RunFacts]:
        unsaid = RunFacts(experiment="churn", status="FINISHED", ended=None)
        return {id: self.facts.get(id, unsaid) for id in ids}

    def schemas(self, context: Context, datasets: Sequence[str], longest: int) -> Mapping[str, str]:
        return {id: self.schema[id] for id in datasets if id in self.schema and len(self.schema[id]) <= longest}


class Room:
    def __init__(self, folder: Path, postgres_url: str | None = None) -> None:
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        self.records = Remembered()
        self.service = LineageService(self.records)
        self.now = EARLY

    def context(self, work: UnitOfWork, project: str) -> Context:
        facts = ProjectFacts(id=self.id_of(project), name=project, places=())
        identity = Identity(principal=PrincipalId("0" * 32), kind="person", name="amal", token=None, zone="home")
        return Context(work=work, identity=identity, project=facts, now=self.now, request_id="r", facts={})

    def id_of(self, project: str) -> ProjectId:
        return ProjectId(hashlib.md5(project.encode()).hexdigest())

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        return self.database.read(function)

    def link(self, *nodes: Node, relation: str = "input", project: str = "alpha") -> None:
        """Each of the nodes led to the next, a microsecond later."""

        def make(work: UnitOfWork) -> None:
            for source, target in itertools.pairwise(nodes):
                self.now = Moment(self.now + 1)
                link(work, project=self.id_of(project), source=source, target=target, relation=relation, now=self.now)

        self.database.write(make)

    def graph(self, node: Node, *, project: str = "alpha", direction: str = "both", depth: int = 10) -> declared.Graph:
        request = declared.ShowGraph(
            project=project,
            kind=node.kind,  # type: ignore[arg-type]
            id=node.id,
            direction=direction,  # type: ignore[arg-type]
            depth=depth,
        )
        return self.read(lambda work: self.service.graph(self.context(work, project), request))

    def events(
        self, *, project: str = "alpha", since: Moment | None = None, limit: int = 100, cursor: str = ""
    ) -> declared.Events:
        request = declared.ListEvents(project=project, since=since, limit=limit, cursor=cursor)
        return self.read(lambda work: self.service.events(self.context(work, project), request))
