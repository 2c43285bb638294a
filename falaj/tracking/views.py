"""Runs as callers see them, put together for a whole page by a handful of queries."""

import json
from collections import defaultdict
from collections.abc import Sequence

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.tracking.operations.runs import Dataset, DatasetInput, ModelOutput, Run, RunInfo
from falaj.tracking.operations.words import Metric, Param, Tag
from falaj.tracking.store import inputs
from falaj.tracking.store.metrics import latest_of
from falaj.tracking.store.runs import RunRow, params_of, tags_of

NAN = float("nan")


def info(row: RunRow) -> RunInfo:
    return RunInfo(
        id=row.id,
        experiment=row.experiment,
        name=row.name,
        user=row.user,
        status=row.status,
        started=row.started,
        ended=row.ended,
        deleted=row.deleted != 0,
        created=Moment(row.created),
        created_by=row.created_by,
    )


def whole_runs(work: UnitOfWork, project: str, rows: Sequence[RunRow]) -> tuple[Run, ...]:
    numbers = [row.number for row in rows]
    params, tags, metrics = defaultdict(list), defaultdict(list), defaultdict(list)
    used, made = defaultdict(list), defaultdict(list)
    if numbers:
        for run, key, value in params_of(work, numbers):
            params[run].append(Param(key=key, value=value))
        for run, key, value in tags_of(work, numbers):
            tags[run].append(Tag(key=key, value=value))
        for run, key, step, at, number, nan in latest_of(work, numbers):
            metrics[run].append(Metric(key=key, value=NAN if nan else number, timestamp=at, step=step))
        for run, role, model, step in inputs.models_of(work, numbers):
            if role == inputs.MADE:
                made[run].append(ModelOutput(model=model, step=step))
            else:
                used[run].append(model)
    datasets = _datasets(work, project, numbers)
    return tuple(
        Run(
            info=info(row),
            params=tuple(params[row.number]),
            tags=tuple(tags[row.number]),
            metrics=tuple(metrics[row.number]),
            datasets=tuple(datasets[row.number]),
            models_used=tuple(used[row.number]),
            models_made=tuple(made[row.number]),
        )
        for row in rows
    )


def _datasets(work: UnitOfWork, project: str, numbers: Sequence[int]) -> dict[int, list[DatasetInput]]:
    """Each dataset is read once, however many of the runs used it: its schema may be large."""
    shown: dict[int, list[DatasetInput]] = defaultdict(list)
    links = inputs.inputs_of(work, numbers) if numbers else []
    known = {
        id: Dataset(
            name=row.name,
            digest=row.digest,
            source_type=row.source_type,
            source=row.source,
            schema=row.schema,
            profile=row.profile,
        )
        for id, row in inputs.find_datasets(work, project, sorted({dataset for _, dataset, _ in links})).items()
    }
    for run, dataset, tags in links:
        pairs = tuple(Tag(key=key, value=value) for key, value in json.loads(tags))
        shown[run].append(DatasetInput(dataset=known[dataset], tags=pairs))
    return shown
