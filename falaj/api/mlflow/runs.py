"""Runs, as MLflow's clients create, tell about and search them. What they measured is `points`."""

import json
from typing import Annotated, Any, Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing, perform
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.words import (
    CutParam,
    CutTag,
    Ids,
    TagBodies,
    experiment_of,
    experiments_of,
    logged_model_of,
    run_of,
    state_of,
    tags_of,
)
from falaj.base.errors import Invalid
from falaj.base.pages import Cursor
from falaj.base.values import Items, Range
from falaj.tracking.operations import runs as ops
from falaj.tracking.operations.words import LONGEST_TAG, Filter, Key, Milliseconds, Order, Param, Status, Tag

NAME_TAG: Final = "mlflow.runName"
MODELS_TAG: Final = "mlflow.log-model.history"
_STATUSES: Final[dict[str, Status]] = {
    "1": "RUNNING",
    "2": "SCHEDULED",
    "3": "FINISHED",
    "4": "FAILED",
    "5": "KILLED",
    "RUNNING": "RUNNING",
    "SCHEDULED": "SCHEDULED",
    "FINISHED": "FINISHED",
    "FAILED": "FAILED",
    "KILLED": "KILLED",
}


@body
class Create:
    experiment_id: str = "0"
    user_id: ops.UserName = ""
    run_name: ops.RunName = ""
    start_time: Milliseconds | None = None
    tags: TagBodies = ()


@body
class One:
    run_id: str = ""
    run_uuid: str = ""


@body
class Update:
    run_id: str = ""
    run_uuid: str = ""
    status: str | int = ""
    end_time: Milliseconds | None = None
    run_name: ops.RunName = ""


@body
class LogParam:
    run_id: str = ""
    run_uuid: str = ""
    key: Key
    value: CutParam = ""


@body
class SetTag:
    run_id: str = ""
    run_uuid: str = ""
    key: Key
    value: CutTag = ""


@body
class DeleteTag:
    run_id: str = ""
    key: Key


@body
class LogModel:
    run_id: str = ""
    model_json: str


@body
class ModelBody:
    model_id: str


@body
class LogInputs:
    run_id: str = ""
    datasets: Annotated[tuple[ops.DatasetInput, ...], Items(most=1000)] = ()
    models: Annotated[tuple[ModelBody, ...], Items(most=1000)] = ()


@body
class OutputBody:
    model_id: str
    step: Milliseconds = 0


@body
class LogOutputs:
    run_id: str = ""
    models: Annotated[tuple[OutputBody, ...], Items(most=1000)] = ()


@body
class Search:
    experiment_ids: Ids = ()
    filter: Filter = ""
    run_view_type: str | int = "ACTIVE_ONLY"
    max_results: Annotated[int, Range(least=1, most=50_000)] = 1000
    order_by: Order = ()
    page_token: Cursor = ""


def artifact_root(experiment: int, run: str) -> str:
    return f"mlflow-artifacts:/{experiment}/{run}/artifacts"


def run_info(info: ops.RunInfo) -> Document:
    document = {
        "run_id": info.id,
        "run_uuid": info.id,
        "run_name": info.name,
        "experiment_id": str(info.experiment),
        "user_id": info.user,
        "status": info.status,
        "start_time": info.started,
        "artifact_uri": artifact_root(info.experiment, info.id),
        "lifecycle_stage": "deleted" if info.deleted else "active",
    }
    if info.ended is not None:
        document["end_time"] = info.ended
    return document


def run(found: ops.Run) -> Document:
    return {
        "info": run_info(found.info),
        "data": {
            "metrics": [
                {"key": metric.key, "value": metric.value, "timestamp": metric.timestamp, "step": metric.step}
                for metric in found.metrics
            ],
            "params": [{"key": param.key, "value": param.value} for param in found.params],
            "tags": [{"key": tag.key, "value": tag.value} for tag in found.tags],
        },
        "inputs": {
            "dataset_inputs": [_dataset_input(used) for used in found.datasets],
            "model_inputs": [{"model_id": model} for model in found.models_used],
        },
        "outputs": {"model_outputs": [{"model_id": made.model, "step": made.step} for made in found.models_made]},
    }


def _dataset_input(used: ops.DatasetInput) -> Document:
    data = used.dataset
    dataset = {"name": data.name, "digest": data.digest, "source_type": data.source_type, "source": data.source}
    if data.schema:
        dataset["schema"] = data.schema
    if data.profile:
        dataset["profile"] = data.profile
    return {"tags": [{"key": tag.key, "value": tag.value} for tag in used.tags], "dataset": dataset}


def _create(sent: Create, visit: Visit) -> ops.CreateRun:
    """A run's name travels twice, as a field and as a tag; clients send either."""
    tags = tags_of(sent.tags)
    name = sent.run_name or next((tag.value for tag in tags if tag.key == NAME_TAG), "")[:500]
    return ops.CreateRun(
        project=visit.project,
        experiment=experiment_of(sent.experiment_id or "0"),
        name=name,
        user=sent.user_id,
        started=sent.start_time,
        tags=tags,
    )


def _one(sent: One, visit: Visit) -> ops.OneRun:
    return ops.OneRun(project=visit.project, run=run_of(sent.run_id or sent.run_uuid))


def _update(sent: Update, visit: Visit) -> ops.UpdateRun:
    status = _STATUSES.get(str(sent.status))
    if sent.status and status is None:
        raise Invalid(f"A run's status is RUNNING, SCHEDULED, FINISHED, FAILED or KILLED, not {str(sent.status)[:100]!r}.")
    return ops.UpdateRun(
        project=visit.project,
        run=run_of(sent.run_id or sent.run_uuid),
        status=status,
        ended=sent.end_time,
        name=sent.run_name,
    )


def _inputs(sent: LogInputs, visit: Visit) -> ops.LogInputs:
    return ops.LogInputs(
        project=visit.project,
        run=run_of(sent.run_id),
        datasets=sent.datasets,
        models=tuple(logged_model_of(model.model_id) for model in sent.models),
    )


def _outputs(sent: LogOutputs, visit: Visit) -> ops.LogOutputs:
    return ops.LogOutputs(
        project=visit.project,
        run=run_of(sent.run_id),
        models=tuple(ops.ModelOutput(model=logged_model_of(model.model_id), step=model.step) for model in sent.models),
    )


def _search(sent: Search, visit: Visit) -> ops.SearchRuns:
    return ops.SearchRuns(
        project=visit.project,
        experiments=experiments_of(sent.experiment_ids),
        filter=sent.filter,
        order=sent.order_by,
        state=state_of(sent.run_view_type),
        limit=sent.max_results,
        cursor=sent.page_token,
    )


def _found(page: ops.Runs) -> Document:
    document: Document = {"runs": [run(found) for found in page.items]}
    return document | ({"next_page_token": page.next} if page.next else {})


def _log_model(visit: Visit, sent: LogModel) -> Document:
    """Old clients tell of a model they logged; the run's tag lists them, the newest last, as many as fit."""
    model = _json_or_none(sent.model_json)
    if not isinstance(model, dict) or not model.keys() >= {"artifact_path", "flavors", "utc_time_created", "run_id"}:
        raise Invalid("model_json must be a JSON object with artifact_path, flavors, utc_time_created and run_id.")
    id = run_of(sent.run_id)
    found = visit.call(ops.SHOW_RUN, ops.OneRun(project=visit.project, run=id))
    known = _json_or_none(next((tag.value for tag in found.tags if tag.key == MODELS_TAG), "[]"))
    text = _newest_that_fit([*(known if isinstance(known, list) else ()), model])
    visit.call(ops.LOG_TO_RUN, ops.LogToRun(project=visit.project, run=id, tags=(Tag(key=MODELS_TAG, value=text),)))
    return {}


def _newest_that_fit(history: list[Any]) -> str:
    """Each is written once: all of them again for each that is left out would take seconds."""
    kept: list[str] = []
    room = LONGEST_TAG - len("[]")
    for entry in reversed(history):
        written = json.dumps(entry)
        room -= len(written) + len(", ")
        if room < -len(", "):
            break
        kept.append(written)
    return f"[{', '.join(reversed(kept))}]"


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _log_param(sent: LogParam, visit: Visit) -> ops.LogToRun:
    param = Param(key=sent.key, value=sent.value)
    return ops.LogToRun(project=visit.project, run=run_of(sent.run_id or sent.run_uuid), params=(param,))


def _set_tag(sent: SetTag, visit: Visit) -> ops.LogToRun:
    tag = Tag(key=sent.key, value=sent.value)
    return ops.LogToRun(project=visit.project, run=run_of(sent.run_id or sent.run_uuid), tags=(tag,))


def _delete_tag(sent: DeleteTag, visit: Visit) -> ops.UntagRun:
    return ops.UntagRun(project=visit.project, run=run_of(sent.run_id), key=sent.key)


_AT: Final = "/api/2.0/mlflow/runs"
ROUTES: Final = (
    ("POST", f"{_AT}/create", adapt(ops.CREATE_RUN, Create, _create, lambda made: {"run": run(made)})),
    ("GET", f"{_AT}/get", adapt(ops.SHOW_RUN, One, _one, lambda found: {"run": run(found)})),
    ("POST", f"{_AT}/update", adapt(ops.UPDATE_RUN, Update, _update, lambda info: {"run_info": run_info(info)})),
    ("POST", f"{_AT}/delete", adapt(ops.DELETE_RUN, One, _one, nothing)),
    ("POST", f"{_AT}/restore", adapt(ops.RESTORE_RUN, One, _one, nothing)),
    ("POST", f"{_AT}/search", adapt(ops.SEARCH_RUNS, Search, _search, _found)),
    ("POST", f"{_AT}/log-parameter", adapt(ops.LOG_TO_RUN, LogParam, _log_param, nothing)),
    ("POST", f"{_AT}/set-tag", adapt(ops.LOG_TO_RUN, SetTag, _set_tag, nothing)),
    ("POST", f"{_AT}/delete-tag", adapt(ops.UNTAG_RUN, DeleteTag, _delete_tag, nothing)),
    ("POST", f"{_AT}/log-inputs", adapt(ops.LOG_INPUTS, LogInputs, _inputs, nothing)),
    ("POST", f"{_AT}/outputs", adapt(ops.LOG_OUTPUTS, LogOutputs, _outputs, nothing)),
    ("POST", f"{_AT}/log-model", perform("mlflow.log-model", LogModel, _log_model)),
)
