"""The platform's side of an import: each step may be done again, and then changes nothing."""

import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, TypeVar

from falaj.base.errors import Conflict, TemporaryError
from falaj.base.operation import Operation, Req, Res
from falaj.base.values import ID_PATTERN
from falaj.cli.importing import records
from falaj.client.http import Client
from falaj.tracking.operations import artifacts, models, runs
from falaj.tracking.operations import experiments as folders
from falaj.tracking.operations.words import MOST_METRICS, Metric, Param, Tag

T = TypeVar("T")
FROM_TAG = "falaj.imported-from"
PARENT_TAG = "mlflow.parentRunId"
MOST_BYTES = 700_000  # in one call, well below what a body may have
AROUND = 80  # bytes that names of fields and numbers take for each thing
ATTEMPTS = 4
AT_ONCE = 1000


def id_of(run: str) -> str:
    """The id a run has here: its own, or where that is of another kind, always the same one made of it."""
    return run if re.fullmatch(ID_PATTERN, run) else hashlib.sha256(f"mlflow run {run}".encode()).hexdigest()[:32]


class Target:
    """One project of one platform. `label` says where everything comes from. Thread-safe."""

    def __init__(self, client: Client, project: str, label: str) -> None:
        self._client = client
        self.project = project
        self.label = label

    def call(self, operation: Operation[Req, Res], request: Req) -> Res:
        return self._client.call(operation, request)

    def every(self, operation: Operation[Any, Any], ask: Callable[[str], Any]) -> Iterator[Any]:
        """The items of all pages; `ask` makes the request for a cursor."""
        page = self.call(operation, ask(""))
        yield from page.items
        while page.next:
            page = self.call(operation, ask(page.next))
            yield from page.items

    # Experiments

    def experiments(self) -> dict[str, folders.Experiment]:
        """By name, the deleted ones too."""

        def ask(cursor: str) -> folders.SearchExperiments:
            return folders.SearchExperiments(project=self.project, state="all", limit=AT_ONCE, cursor=cursor)

        return {found.name: found for found in self.every(folders.SEARCH_EXPERIMENTS, ask)}

    def experiment(self, source: records.Experiment, known: Mapping[str, folders.Experiment]) -> folders.Experiment:
        """The experiment of that name, made where there was none. Tags that it has keep their values."""
        if (found := known.get(source.name)) is None:
            tags = (*source.tags, Tag(key=FROM_TAG, value=self.label))
            request = folders.CreateExperiment(project=self.project, name=source.name, tags=tags)
            return self.call(folders.CREATE_EXPERIMENT, request)
        if found.deleted and not self.is_ours(found):
            raise Conflict(f"The experiment {source.name!r} is deleted here; restore it, or rename it, and import again.")
        present = {tag.key for tag in found.tags}
        for tag in source.tags:
            if tag.key not in present and not found.deleted:
                addition = folders.TagExperiment(project=self.project, experiment=found.id, key=tag.key, value=tag.value)
                self.call(folders.TAG_EXPERIMENT, addition)
        return found

    @staticmethod
    def is_ours(experiment: folders.Experiment) -> bool:
        """Whether an import made it."""
        return any(tag.key == FROM_TAG for tag in experiment.tags)

    def set_deleted(self, experiment: int, deleted: bool) -> None:
        operation = folders.DELETE_EXPERIMENT if deleted else folders.RESTORE_EXPERIMENT
        self.call(operation, folders.OneExperiment(project=self.project, experiment=experiment))

    # Runs

    def run(self, source: records.Run, experiment: int, *, deleted: bool) -> str:
        """Its id here. Where it has been here before, it is brought to the status it has by now."""
        request = runs.ImportRun(
            project=self.project,
            run=id_of(source.id),
            experiment=experiment,
            name=source.name[:500],
            user=source.user[:256],
            status=source.status,
            started=source.started,
            ended=source.ended,
            deleted=deleted,
            source=self.label[:500],
        )
        info = self.call(runs.IMPORT_RUN, request)
        if (info.status, info.ended) != (source.status, source.ended):
            change = runs.UpdateRun(project=self.project, run=info.id, status=source.status, ended=source.ended)
            self.call(runs.UPDATE_RUN, change)
        return info.id

    def log(self, source: records.Run, run: str, points: Iterable[Metric]) -> int:
        """Its parameters, its tags, and all points of its metrics; how many points there were."""
        sent = 0
        everything: Iterator[Param | Tag | Metric] = chain(source.params, _tags(source), points)
        for parcel in parcels(everything, MOST_METRICS, _size):
            metrics = tuple(it for it in parcel if isinstance(it, Metric))
            request = runs.LogToRun(
                project=self.project,
                run=run,
                metrics=metrics,
                params=tuple(it for it in parcel if isinstance(it, Param)),
                tags=tuple(it for it in parcel if isinstance(it, Tag)),
            )
            self.call(runs.LOG_TO_RUN, request)
            sent += len(metrics)
        return sent

    def datasets(self, run: str, datasets: Sequence[runs.DatasetInput]) -> None:
        for parcel in parcels([_fitting(one) for one in datasets], 100, _length):
            self.call(runs.LOG_INPUTS, runs.LogInputs(project=self.project, run=run, datasets=tuple(parcel)))

    def links(self, run: str, used: Sequence[str], made: Sequence[tuple[str, int]]) -> None:
        """The logged models a run used and made, by their ids here."""
        if used:
            self.call(runs.LOG_INPUTS, runs.LogInputs(project=self.project, run=run, models=tuple(used)))
        if made:
            outputs = tuple(runs.ModelOutput(model=model, step=step) for model, step in made)
            self.call(runs.LOG_OUTPUTS, runs.LogOutputs(project=self.project, run=run, models=outputs))

    # Logged models

    def logged_models(self, experiment: int) -> dict[str, str]:
        """Those that an import made: id there -> id here."""

        def ask(cursor: str) -> models.SearchLoggedModels:
            return models.SearchLoggedModels(project=self.project, experiments=(experiment,), limit=AT_ONCE, cursor=cursor)

        found = self.every(models.SEARCH_LOGGED_MODELS, ask)
        return {tag.value: model.id for model in found for tag in model.tags if tag.key == FROM_TAG}

    def logged_model(self, source: records.LoggedModel, experiment: int, run: str) -> str:
        request = models.CreateLoggedModel(
            project=self.project,
            experiment=experiment,
            name=source.name,
            kind=source.kind,
            run=run,
            tags=(*source.tags, Tag(key=FROM_TAG, value=source.id)),
        )
        return self.call(models.CREATE_LOGGED_MODEL, request).id

    def finish(self, model: str, source: records.LoggedModel, metrics: Iterable[models.ModelMetric]) -> None:
        """`metrics` are those of its own that runs here have measured."""
        for params in parcels(source.params, MOST_METRICS, _size):
            self.call(models.LOG_MODEL_PARAMS, models.LogModelParams(project=self.project, model=model, params=tuple(params)))
        of_same: dict[tuple[str, str, str], list[Metric]] = defaultdict(list)
        for one in metrics:
            of_same[(one.run, one.dataset_name, one.dataset_digest)].append(one.metric)
        for (run, name, digest), points in of_same.items():
            for parcel in parcels(points, MOST_METRICS, _size):
                request = runs.LogToRun(
                    project=self.project,
                    run=id_of(run),
                    metrics=tuple(parcel),
                    model=model,
                    dataset_name=name,
                    dataset_digest=digest,
                )
                self.call(runs.LOG_TO_RUN, request)
        ending = models.FinishLoggedModel(project=self.project, model=model, status=source.status)
        self.call(models.FINISH_LOGGED_MODEL, ending)

    # Files

    def files(self, holder: str) -> dict[str, int]:
        """Name -> size of the artifacts that are here."""

        def ask(cursor: str) -> artifacts.ListArtifacts:
            return artifacts.ListArtifacts(project=self.project, holder=holder, deep=True, cursor=cursor)

        return {entry.name: entry.size for entry in self.every(artifacts.LIST_ARTIFACTS, ask)}

    def put(self, holder: str, name: str, opened: Callable[[], AbstractContextManager[Iterator[bytes]]]) -> None:
        """Store one file; it is read anew at each attempt."""
        request = artifacts.PutArtifact(project=self.project, holder=holder, name=name)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with opened() as chunks:
                    self._client.call(artifacts.PUT_ARTIFACT, request, chunks=chunks)
                return
            except TemporaryError as error:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(error.delay)


def parcels(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in their order, so many at once as fit into one call."""
    parcel: list[T] = []
    total = 0
    for item in items:
        length = size(item)
        if parcel and (len(parcel) == most or total + length > MOST_BYTES):
            yield parcel
            parcel, total = [], 0
        parcel.append(item)
        total += length
    if parcel:
        yield parcel


def _tags(source: records.Run) -> Iterator[Tag]:
    """Its tags; a parent is named by the id it has here."""
    for tag in source.tags:
        yield Tag(key=tag.key, value=id_of(tag.value)) if tag.key == PARENT_TAG and tag.value else tag
    if id_of(source.id) != source.id:
        yield Tag(key=FROM_TAG, value=source.id)


def _bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def _size(thing: Param | Tag | Metric) -> int:
    return AROUND + _bytes(thing.key) + (0 if isinstance(thing, Metric) else _bytes(thing.value))


def _length(one: runs.DatasetInput) -> int:
    data = one.dataset
    return sum(map(_size, one.tags)) + sum(map(_bytes, (data.name, data.source, data.schema, data.profile)))


def _fitting(one: runs.DatasetInput) -> runs.DatasetInput:
    """Without its profile, and at last without its schema, where those would fill a whole call."""
    if _length(one) <= MOST_BYTES:
        return one
    data = one.dataset
    schema = data.schema if _bytes(data.source) + _bytes(data.schema) <= MOST_BYTES else ""
    fitting = runs.Dataset(name=data.name, digest=data.digest, source_type=data.source_type, source=data.source, schema=schema)
    return runs.DatasetInput(dataset=fitting, tags=one.tags)
