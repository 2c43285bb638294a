"""What a story is made of, read in snapshots of its own before the story is told.

Rooms are asked by their operations, so that each decides by itself what the reader may see. Only where something was deleted,
which operations know no more, its row is read, and only by those who may see its like.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.collaboration.operations.words import Person
from falaj.database.work import Context, Database
from falaj.datasets.operations import datasets
from falaj.datasets.operations import versions as dataset_versions
from falaj.datasets.store import versions as dataset_store
from falaj.jobs.operations import jobs
from falaj.jobs.operations.jobs import Job
from falaj.jobs.store import jobs as job_store
from falaj.lifecycle.operations import pipelines
from falaj.lifecycle.operations.stories import Chapter, Hidden
from falaj.lifecycle.records import made_of
from falaj.lifecycle.store import runs as run_store
from falaj.lifecycle.story.reading import MOST, Reader
from falaj.lineage.operations import SHOW_GRAPH, Graph, ShowGraph
from falaj.monitoring.operations import abtests, alerts, labels
from falaj.optimisation.operations import optimisations, variants
from falaj.optimisation.store import optimisations as optimisation_store
from falaj.registry.operations import evidence, promotions, versions
from falaj.serving.operations import endpoints
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.views import changes_shown, revisions_shown
from falaj.tracking.operations import experiments, runs

JOB_TAG: Final = "falaj.job"  # of runs that a job was given
DEPTH: Final = 50
TRAFFIC_DAYS: Final = 30
QUALITY_DAYS: Final = 366
MOST_DATASETS: Final = 100
MOST_ENDPOINTS: Final = 20
MOST_PIPED: Final = 20
MOST_QUALITIES: Final = 5


@value
class Data:
    """A node of lineage. `version` is what Falaj has of it; `row` too where its dataset was deleted."""

    name: str
    digest: str
    distance: int
    version: dataset_versions.Version | None = None
    row: Any = None


@value
class Answering:
    """An endpoint at which the version has or had revisions; `changes` are all of its split's, oldest first."""

    id: str
    name: str
    zone: str
    deleted: Moment | None
    revisions: tuple[endpoints.Revision, ...]
    changes: tuple[endpoints.Change, ...]
    traffic: endpoints.Traffic | None
    quality: tuple[labels.Bucket, ...]
    alerts: tuple[alerts.Alert, ...]
    abtests: tuple[abtests.Abtest, ...]


@value
class Worked:
    purpose: Any
    job: Job


@value
class Piped:
    """`made`: the version came to be in it."""

    run: pipelines.PipelineRun
    made: bool


@value
class Gathered:
    version: versions.Version
    sbom: str
    data: tuple[Data, ...]
    features: tuple[str, ...]
    run: runs.Run | None
    experiment: str
    gates: tuple[evidence.Evidence, ...]
    variants: tuple[variants.Variant, ...]
    piped: tuple[Piped, ...]
    moves: tuple[promotions.Move, ...]
    approvals: tuple[promotions.Approval, ...]
    answering: tuple[Answering, ...]
    worked: tuple[Worked, ...]
    hidden: tuple[Hidden, ...]
    cut: bool


class Gathering:
    """Belongs to one call."""

    def __init__(self, database: Database, reader: Reader, context: Context, version: versions.Version) -> None:
        self._database, self._reader, self._context, self._version = database, reader, context, version
        self._project, self._project_id = context.required_project.name, context.required_project.id
        self._cut = False

    def gathered(self) -> Gathered:
        graph = self._reader.ask(
            "data",
            SHOW_GRAPH,
            ShowGraph(project=self._project, kind="version", id=self._version.id, direction="up", depth=DEPTH),
        )
        run, gates = self._run(graph), self._gates()
        # In this order: what is gathered last knows whether there was more than is told.
        parts: dict[str, Any] = {
            "data": self._data(graph),
            "features": _views(graph),
            "run": run,
            "experiment": self._experiment(run),
            "gates": gates,
            "variants": self._variants(),
            "piped": self._piped(),
            "moves": self._moves(),
            "approvals": self._approvals(),
            "answering": self._answering(),
            "worked": self._worked(run, gates),
        }
        return Gathered(version=self._version, sbom=self._sbom(), hidden=self._reader.hidden, cut=self._cut, **parts)

    def _every(self, chapter: Chapter, operation: Any, request: Any) -> list[Any]:
        found, more = self._reader.every(chapter, operation, request)
        self._cut = self._cut or more
        return found

    # What it is, and what it came from

    def _named(self) -> dict[str, Any]:
        return {"project": self._project, "model": self._version.model, "version": self._version.version}

    def _sbom(self) -> str:
        bill = self._reader.ask("data", versions.GET_SBOM, versions.OneVersion(**self._named()))
        return "" if bill is None else hashlib.sha256(b"".join(bill.chunks)).hexdigest()

    def _data(self, graph: Graph | None) -> tuple[Data, ...]:
        nodes = [node for node in graph.nodes if node.kind == "dataset"] if graph is not None else []
        if not nodes or not self._reader.may("data", datasets.LIST_DATASETS, datasets.ListDatasets(project=self._project)):
            return ()
        self._cut = self._cut or len(nodes) > MOST_DATASETS
        return tuple(self._datum(node.id, abs(node.distance)) for node in nodes[:MOST_DATASETS])

    def _datum(self, id: str, distance: int) -> Data:
        name, _, digest = id.rpartition("@")
        row = self._database.read(lambda work: dataset_store.with_digest(work, self._project_id, name, digest))
        if row is None or row.deleted is not None:
            return Data(name=name, digest=digest, distance=distance, row=row)
        asked = dataset_versions.OneVersion(project=self._project, dataset=name, version=str(row.number))
        found = self._reader.ask("data", dataset_versions.SHOW_VERSION, asked)
        return Data(name=name, digest=digest, distance=distance, version=found, row=row)

    # How it was made

    def _run(self, graph: Graph | None) -> runs.Run | None:
        behind = next((node.id for node in graph.nodes if node.kind == "run"), "") if graph is not None else ""
        run = self._version.run or behind
        return self._reader.ask("training", runs.SHOW_RUN, runs.OneRun(project=self._project, run=run)) if run else None

    def _experiment(self, run: runs.Run | None) -> str:
        if run is None:
            return ""
        asked = experiments.OneExperiment(project=self._project, experiment=run.info.experiment)
        found = self._reader.ask("training", experiments.SHOW_EXPERIMENT, asked)
        return "" if found is None else found.name

    def _worked(self, run: runs.Run | None, gates: Sequence[evidence.Evidence]) -> tuple[Worked, ...]:
        """The jobs that went into it: of the run, of gates, and those that made and measured variants."""
        if not self._reader.may("cost", jobs.LIST_JOBS, jobs.ListJobs(project=self._project, limit=1)):
            return ()
        trained = [] if run is None else [tag.value for tag in run.tags if tag.key == JOB_TAG]
        if run is not None:
            trained += self._database.read(lambda work: job_store.of_run(work, self._project_id, run.info.id))
        asked = dict.fromkeys(trained, "training") | dict.fromkeys((one.job for one in gates), "gate")
        asked |= dict.fromkeys(self._optimising(), "optimisation")
        found = ((purpose, self._job(id)) for id, purpose in asked.items())
        return tuple(Worked(purpose=purpose, job=job) for purpose, job in found if job is not None)

    def _optimising(self) -> list[str]:
        """Which jobs told of a search is in its row."""
        asked = optimisations.ListOptimisations(project=self._project, model=self._version.model, limit=MOST)
        found = self._reader.ask("variants", optimisations.LIST_OPTIMISATIONS, asked)
        mine = [one.id for one in found.items if one.version_id == self._version.id] if found is not None else []
        rows = [self._database.read(lambda work, id=id: optimisation_store.find(work, self._project_id, id)) for id in mine]  # type: ignore[misc]
        return [job for row in rows if row is not None for job in json.loads(row.found).get("jobs", ())]

    def _job(self, id: str) -> Job | None:
        return self._reader.ask("cost", jobs.SHOW_JOB, jobs.OneJob(project=self._project, job=id)) if _is_id(id) else None

    # What became of it

    def _gates(self) -> tuple[evidence.Evidence, ...]:
        named: dict[str, Any] = {**self._named(), "limit": MOST}
        found = self._every("evaluation", evidence.READ_EVIDENCE, lambda cursor: evidence.ReadEvidence(**named, cursor=cursor))
        return tuple(reversed(found))

    def _variants(self) -> tuple[variants.Variant, ...]:
        return tuple(
            self._every(
                "variants", variants.LIST_VARIANTS, lambda cursor: variants.ListVariants(**self._named(), cursor=cursor)
            )
        )

    def _piped(self) -> tuple[Piped, ...]:
        """The runs of pipelines that handed it on, oldest first; the one that made it always."""
        if not self._reader.may("pipelines", pipelines.LIST_RUNS, pipelines.ListRuns(project=self._project, limit=1)):
            return ()
        maker = self._reader.ask("pipelines", pipelines.FIND_MAKER, pipelines.FindMaker(**self._named()))
        made, since = made_of({"model": self._version.model, "version": self._version.version}), self._version.created
        ids = self._database.read(lambda work: run_store.handing_on(work, self._project_id, made, since, MOST_PIPED + 1))
        self._cut = self._cut or len(ids) > MOST_PIPED
        wanted = {*ids[:MOST_PIPED], *([maker.run] if maker is not None else ())}
        asked = (pipelines.OneRun(project=self._project, run=id) for id in sorted(wanted))
        found = (self._reader.ask("pipelines", pipelines.SHOW_RUN, one) for one in asked)
        return tuple(Piped(run=one, made=maker is not None and one.id == maker.run) for one in found if one is not None)

    def _moves(self) -> tuple[promotions.Move, ...]:
        named: dict[str, Any] = {"project": self._project, "model": self._version.model, "limit": MOST}
        found = self._every("approvals", promotions.HISTORY, lambda cursor: promotions.ReadMoves(**named, cursor=cursor))
        return tuple(one for one in reversed(found) if self._version.version in (one.version, one.before))

    def _approvals(self) -> tuple[promotions.Approval, ...]:
        named: dict[str, Any] = {"project": self._project, "model": self._version.model, "state": "all", "limit": MOST}
        found = self._every(
            "approvals", promotions.LIST_APPROVALS, lambda cursor: promotions.ListApprovals(**named, cursor=cursor)
        )
        return tuple(one for one in reversed(found) if one.version == self._version.version)

    def _answering(self) -> tuple[Answering, ...]:
        if not self._reader.may("serving", endpoints.LIST_ENDPOINTS, endpoints.ListEndpoints(project=self._project, limit=1)):
            return ()
        rows = self._database.read(lambda work: endpoint_store.revisions_of_version(work, self._project_id, self._version.id))
        by_endpoint: dict[str, list[Any]] = {}
        for row in rows:
            by_endpoint.setdefault(row.endpoint, []).append(row)
        self._cut = self._cut or len(by_endpoint) > MOST_ENDPOINTS
        return tuple(self._one_endpoint(made) for made in list(by_endpoint.values())[-MOST_ENDPOINTS:])

    def _one_endpoint(self, made: Sequence[Any]) -> Answering:
        first = made[0]
        numbers = [row.number for row in made]
        revisions = self._database.read(lambda work: revisions_shown(work, made))
        changes = self._database.read(
            lambda work: changes_shown(work, endpoint_store.changes_before(work, first.endpoint, None, MOST))
        )
        self._cut = self._cut or len(changes) == MOST
        lives = first.endpoint_deleted is None
        return Answering(
            id=first.endpoint,
            name=first.endpoint_name,
            zone=first.zone,
            deleted=None if lives else Moment(first.endpoint_deleted),
            revisions=revisions,
            changes=tuple(reversed(changes)),
            traffic=self._traffic(first.endpoint_name) if lives else None,
            quality=tuple(
                bucket for number in numbers[-MOST_QUALITIES:] for bucket in self._quality(first.endpoint_name, number)
            )
            if lives
            else (),
            alerts=self._alerts(first.endpoint_name),
            abtests=self._abtests(first.endpoint_name),
        )

    def _traffic(self, endpoint: str) -> endpoints.Traffic | None:
        asked = endpoints.ReadTraffic(project=self._project, endpoint=endpoint, seconds=TRAFFIC_DAYS * 86_400)
        return self._reader.ask("watching", endpoints.READ_TRAFFIC, asked)

    def _quality(self, endpoint: str, revision: int) -> tuple[labels.Bucket, ...]:
        asked = labels.ReadQuality(project=self._project, endpoint=endpoint, revision=revision, span="whole", days=QUALITY_DAYS)
        found = self._reader.ask("watching", labels.READ_QUALITY, asked)
        return () if found is None else found.items

    def _alerts(self, endpoint: str) -> tuple[alerts.Alert, ...]:
        named: dict[str, Any] = {"project": self._project, "endpoint": endpoint, "which": "all", "limit": MOST}
        return tuple(self._every("watching", alerts.LIST_ALERTS, lambda cursor: alerts.ListAlerts(**named, cursor=cursor)))

    def _abtests(self, endpoint: str) -> tuple[abtests.Abtest, ...]:
        named: dict[str, Any] = {"project": self._project, "endpoint": endpoint, "limit": MOST}
        found = self._every("watching", abtests.LIST_ABTESTS, lambda cursor: abtests.ListAbtests(**named, cursor=cursor))
        mine = (self._version.model, self._version.version)
        return tuple(one for one in found if mine in {(arm.model, arm.version) for arm in one.arms})


def _views(graph: Graph | None) -> tuple[str, ...]:
    return tuple(sorted(node.label or node.id for node in graph.nodes if node.kind == "view")) if graph is not None else ()


def _is_id(text: str) -> bool:
    return len(text) == 32 and text.isalnum()


def by_name(person: Person | promotions.Person | None) -> str:
    return "" if person is None else person.name
