"""The rooms of experiments and models, wired to each other: siblings meet here and nowhere else."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from falaj.base.clock import Moment
from falaj.base.operation import Operation
from falaj.collaboration import operations as collaboration_operations
from falaj.collaboration.service import CollaborationService
from falaj.database.binding import Bound
from falaj.database.work import Context, Database
from falaj.governance.gate import Gatekeeper
from falaj.lifecycle.replays import replay_behind
from falaj.lifecycle.store.runs import authors_behind, starters_behind
from falaj.lineage import operations as lineage_operations
from falaj.lineage.events import RunFacts as LineageRun
from falaj.lineage.service import LineageService
from falaj.registry import operations as registry_operations
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.room import Registry
from falaj.registry.sources import Dependents, RunFacts, SourceFile
from falaj.registry.store import models as registered
from falaj.registry.store import versions as registered_versions
from falaj.storage.service import BlobService
from falaj.tracking import operations as tracking_operations
from falaj.tracking.artifacts.service import ArtifactService
from falaj.tracking.experiments import ExperimentService
from falaj.tracking.models.service import LoggedModelService
from falaj.tracking.models.store import find_model
from falaj.tracking.runs import RunService
from falaj.tracking.store import experiments, inputs, metrics, runs
from falaj.tracking.store.digests import dataset_id

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *tracking_operations.OPERATIONS,
    *registry_operations.OPERATIONS,
    *lineage_operations.OPERATIONS,
    *collaboration_operations.OPERATIONS,
)


class Service(Protocol):
    def bindings(self) -> list[Bound]: ...


class Experiments:
    """Everything about experiments and models. `artifacts` wants a step now and then, which forgets unfinished uploads."""

    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        signers: ProjectSigners,
        gate: Gatekeeper,
        operations: Sequence[Operation[Any, Any]],
        dependents: Dependents,
    ) -> None:
        self.artifacts = ArtifactService(blobs, database)
        sources = _Sources(self.artifacts)
        self.services: tuple[Service, ...] = (
            ExperimentService(),
            RunService(),
            LoggedModelService(),
            self.artifacts,
            Registry(database=database, blobs=blobs, sources=sources, signers=signers, gate=gate, dependents=dependents),
            LineageService(_Records()),
            CollaborationService(_Things(), operations),
        )


class _Sources:
    """What the registry registers: files of runs and logged models, and what a run was."""

    def __init__(self, artifacts: ArtifactService) -> None:
        self._artifacts = artifacts

    def files(self, context: Context, holder: str, folder: str) -> tuple[SourceFile, ...]:
        found = self._artifacts.files(context, holder, folder)
        return tuple(
            SourceFile(name=file.name, blob=file.blob, size=file.size, digest=file.digest, token=file.token) for file in found
        )

    def run(self, context: Context, run: str) -> RunFacts | None:
        place = runs.find_place(context.work, context.required_project.id, run)
        if place is None:
            return None
        params = {key: text for _, key, text in runs.params_of(context.work, [place.number])}
        latest = metrics.latest_of(context.work, [place.number])
        return RunFacts(params=params, metrics={name: float("nan") if nan else last for _, name, _, _, last, nan in latest})

    def run_of(self, context: Context, model: str) -> str:
        found = find_model(context.work, context.required_project.id, model)
        return found.run if found is not None else ""

    def replay_of(self, context: Context) -> str:
        return "" if context.identity.token is None else replay_behind(context.work, context.identity.token)

    def authors(self, context: Context) -> Collection[str]:
        work, token = context.work, context.identity.token
        return () if token is None else starters_behind(work, token) | authors_behind(work, token)


class _Records:
    """What lineage exports about runs and the data they read."""

    def runs(self, context: Context, ids: Sequence[str]) -> Mapping[str, LineageRun]:
        project = context.required_project.id
        found = {run: row for run in ids if (row := runs.find_run(context.work, project, run)) is not None}
        names: dict[int, str] = {}
        for number in {row.experiment for row in found.values()}:
            experiment = experiments.find_experiment(context.work, project, number)
            names[number] = experiment.name if experiment is not None else str(number)
        return {
            run: LineageRun(
                experiment=names[row.experiment],
                status=row.status,
                ended=None if row.ended is None else Moment(row.ended * 1000),
            )
            for run, row in found.items()
        }

    def schemas(self, context: Context, datasets: Sequence[str], longest: int) -> Mapping[str, str]:
        wanted = {dataset_id(*name.rpartition("@")[::2]): name for name in datasets}
        found = inputs.find_datasets(context.work, context.required_project.id, list(wanted))
        return {wanted[id]: row.schema for id, row in found.items() if row.schema and len(row.schema) <= longest}


class _Things:
    """What can be talked about, deleted or not: what was said about it stays with it."""

    def label(self, context: Context, kind: str, id: str) -> str | None:
        work, project = context.work, context.required_project.id
        if kind == "experiment":
            experiment = experiments.find_experiment(work, project, int(id))
            return None if experiment is None else str(experiment.name)
        if kind == "run":
            run = runs.find_run(work, project, id)
            return None if run is None else run.name
        if kind == "model":
            model = registered.find_by_id(work, project, id)
            return None if model is None else str(model.name)
        version = registered_versions.find_by_id(work, project, id)
        if version is None:
            return None
        return f"{registered.names_of(work, [version.model]).get(version.model, 'a deleted model')} v{version.number}"
