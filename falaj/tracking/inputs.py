"""What a run used and made: kept with the run, and linked into the project's lineage."""

import json
from collections.abc import Iterable
from typing import Final

from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.database.work import Context
from falaj.lineage.graph import Node, link
from falaj.tracking.lookups import no_run, require_writable
from falaj.tracking.models.store import find_model
from falaj.tracking.operations import runs as declared
from falaj.tracking.store import inputs as store
from falaj.tracking.store.digests import dataset_id
from falaj.tracking.store.runs import RunRow, find_run

CONTEXT: Final = "mlflow.data.context"


def log_inputs(context: Context, request: declared.LogInputs) -> Nothing:
    row = _run(context, request.run)
    add_datasets(context, row, request.datasets)
    store.add_models(context.work, row.number, store.USED, {(model, 0): None for model in request.models})
    for model in dict.fromkeys(request.models):
        _link(context, _model(context, model), _node(row), "input")
    return Nothing()


def log_outputs(context: Context, request: declared.LogOutputs) -> Nothing:
    row = _run(context, request.run)
    store.add_models(context.work, row.number, store.MADE, {(made.model, made.step): None for made in request.models})
    for model in dict.fromkeys(made.model for made in request.models):
        _link(context, _node(row), _model(context, model), "output")
    return Nothing()


def add_datasets(context: Context, row: RunRow, given: Iterable[declared.DatasetInput]) -> None:
    """The first of several that are the same data counts."""
    described: dict[str, store.DatasetRow] = {}
    used: dict[str, tuple[str | None, str]] = {}
    for one in given:
        data = one.dataset
        id = dataset_id(data.name, data.digest)
        if id in used:
            continue
        described[id] = store.DatasetRow(id, data.name, data.digest, data.source_type, data.source, data.schema, data.profile)
        role = next((tag.value for tag in one.tags if tag.key == CONTEXT), None)
        used[id] = (role, json.dumps([(tag.key, tag.value) for tag in one.tags], ensure_ascii=False))
        _link(context, Node(kind="dataset", id=f"{data.name}@{data.digest}", label=data.name), _node(row), "input")
    store.add_datasets(context.work, context.required_project.id, list(described.values()))
    store.add_inputs(context.work, row.number, used)


def _run(context: Context, run: str) -> RunRow:
    row = find_run(context.work, context.required_project.id, run)
    if row is None:
        raise no_run(run)
    require_writable(run, row.deleted)
    return row


def _node(row: RunRow) -> Node:
    return Node(kind="run", id=row.id, label=row.name)


def _model(context: Context, model: str) -> Node:
    found = find_model(context.work, context.required_project.id, model)
    if found is None:
        raise NotFound(f"The project has no logged model {model}.")
    return Node(kind="model", id=model, label=found.name)


def _link(context: Context, source: Node, target: Node, relation: str) -> None:
    link(context.work, project=context.required_project.id, source=source, target=target, relation=relation, now=context.now)
