"""Logged models: what a run made, before anybody registered it."""

from typing import Annotated, Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing
from falaj.api.mlflow.bodies import Empty, body
from falaj.api.mlflow.words import (
    DatasetDigest,
    DatasetName,
    Ids,
    ParamBodies,
    TagBodies,
    experiment_of,
    logged_model_of,
    milliseconds,
    params_of,
    run_or_none,
    some_experiments,
    tags_of,
)
from falaj.base.errors import Invalid
from falaj.base.pages import Cursor
from falaj.base.values import Items, Range, Text
from falaj.tracking.operations import models as ops
from falaj.tracking.operations.words import LONGEST_KEY, Filter, Title

_STATUSES: Final[dict[str, ops.ModelStatus]] = {
    "1": "PENDING",
    "2": "READY",
    "3": "UPLOAD_FAILED",
    "LOGGED_MODEL_PENDING": "PENDING",
    "LOGGED_MODEL_READY": "READY",
    "LOGGED_MODEL_UPLOAD_FAILED": "UPLOAD_FAILED",
}


@body
class Create:
    experiment_id: str = ""
    name: Annotated[str, Text(longest=500)] = ""
    model_type: Annotated[str, Text(longest=500)] = ""
    source_run_id: str = ""
    params: ParamBodies = ()
    tags: TagBodies = ()


@body
class Finalize:
    status: str | int


@body
class SetTags:
    tags: TagBodies = ()


@body
class LogParams:
    params: ParamBodies = ()


@body
class OrderBy:
    field_name: Annotated[str, Text(shortest=1, longest=500)]
    ascending: bool = True
    dataset_name: DatasetName = ""
    dataset_digest: DatasetDigest = ""


@body
class DatasetBody:
    dataset_name: Title
    dataset_digest: DatasetDigest = ""


@body
class Search:
    experiment_ids: Ids = ()
    filter: Filter = ""
    datasets: Annotated[tuple[DatasetBody, ...], Items(most=100)] = ()
    max_results: Annotated[int, Range(least=1, most=2**31)] = 50
    order_by: Annotated[tuple[OrderBy, ...], Items(most=20)] = ()
    page_token: Cursor = ""


def artifact_root(experiment: int, model: str) -> str:
    return f"mlflow-artifacts:/{experiment}/models/{model}/artifacts"


def logged_model(found: ops.LoggedModel) -> Document:
    info: Document = {
        "model_id": found.id,
        "experiment_id": str(found.experiment),
        "name": found.name,
        "creation_timestamp_ms": milliseconds(found.created),
        "last_updated_timestamp_ms": milliseconds(found.changed),
        "artifact_uri": artifact_root(found.experiment, found.id),
        "status": f"LOGGED_MODEL_{found.status}",
        "model_type": found.kind,
        "tags": [{"key": tag.key, "value": tag.value} for tag in found.tags],
    }
    if found.run:
        info["source_run_id"] = found.run
    params = [{"key": param.key, "value": param.value} for param in found.params]
    return {"info": info, "data": {"params": params, "metrics": [_metric(found.id, one) for one in found.metrics]}}


def _metric(model: str, measured: ops.ModelMetric) -> Document:
    point = measured.metric
    document: Document = {
        "key": point.key,
        "value": point.value,
        "timestamp": point.timestamp,
        "step": point.step,
        "model_id": model,
        "run_id": measured.run,
    }
    if measured.dataset_name:
        document |= {"dataset_name": measured.dataset_name, "dataset_digest": measured.dataset_digest}
    return document


def _model(found: ops.LoggedModel) -> Document:
    return {"model": logged_model(found)}


def _create(sent: Create, visit: Visit) -> ops.CreateLoggedModel:
    return ops.CreateLoggedModel(
        project=visit.project,
        experiment=experiment_of(sent.experiment_id),
        name=sent.name,
        kind=sent.model_type,
        run=run_or_none(sent.source_run_id),
        params=params_of(sent.params),
        tags=tags_of(sent.tags),
    )


def _one(_sent: Empty, visit: Visit) -> ops.OneLoggedModel:
    return ops.OneLoggedModel(project=visit.project, model=logged_model_of(visit.path[0]))


def _finalize(sent: Finalize, visit: Visit) -> ops.FinishLoggedModel:
    if (status := _STATUSES.get(str(sent.status))) is None:
        raise Invalid(f"A logged model's status is one of {', '.join(list(_STATUSES)[3:])}, not {str(sent.status)[:100]!r}.")
    return ops.FinishLoggedModel(project=visit.project, model=logged_model_of(visit.path[0]), status=status)


def _set_tags(sent: SetTags, visit: Visit) -> ops.TagLoggedModel:
    return ops.TagLoggedModel(project=visit.project, model=logged_model_of(visit.path[0]), tags=tags_of(sent.tags))


def _untag(_sent: Empty, visit: Visit) -> ops.UntagLoggedModel:
    model, *key = visit.path
    text = "/".join(key)
    if not 0 < len(text) <= LONGEST_KEY or "\0" in text:
        raise Invalid(f"A tag's key has from 1 to {LONGEST_KEY} characters, in UTF-8 and without NUL.")
    return ops.UntagLoggedModel(project=visit.project, model=logged_model_of(model), key=text)


def _log_params(sent: LogParams, visit: Visit) -> ops.LogModelParams:
    return ops.LogModelParams(project=visit.project, model=logged_model_of(visit.path[0]), params=params_of(sent.params))


def _search(sent: Search, visit: Visit) -> ops.SearchLoggedModels:
    return ops.SearchLoggedModels(
        project=visit.project,
        experiments=some_experiments(sent.experiment_ids),
        filter=sent.filter,
        datasets=tuple(_measured_on(one) for one in sent.datasets),
        order=tuple(
            ops.ModelOrder(
                field=one.field_name, ascending=one.ascending, dataset=_measured_on(one) if one.dataset_name else None
            )
            for one in sent.order_by
        ),
        limit=min(sent.max_results, 1000),
        cursor=sent.page_token,
    )


def _measured_on(sent: OrderBy | DatasetBody) -> ops.MeasuredOn:
    return ops.MeasuredOn(name=sent.dataset_name, digest=sent.dataset_digest)


def _found(page: ops.LoggedModels) -> Document:
    document: Document = {"models": [logged_model(found) for found in page.items]}
    return document | ({"next_page_token": page.next} if page.next else {})


_AT: Final = "/api/2.0/mlflow/logged-models"
ROUTES: Final = (
    ("POST", _AT, adapt(ops.CREATE_LOGGED_MODEL, Create, _create, _model)),
    ("POST", f"{_AT}/search", adapt(ops.SEARCH_LOGGED_MODELS, Search, _search, _found)),
    ("GET", f"{_AT}/{{model}}", adapt(ops.SHOW_LOGGED_MODEL, Empty, _one, _model)),
    ("PATCH", f"{_AT}/{{model}}", adapt(ops.FINISH_LOGGED_MODEL, Finalize, _finalize, _model)),
    ("DELETE", f"{_AT}/{{model}}", adapt(ops.DELETE_LOGGED_MODEL, Empty, _one, nothing)),
    ("PATCH", f"{_AT}/{{model}}/tags", adapt(ops.TAG_LOGGED_MODEL, SetTags, _set_tags, _model)),
    ("DELETE", f"{_AT}/{{model}}/tags/{{key*}}", adapt(ops.UNTAG_LOGGED_MODEL, Empty, _untag, nothing)),
    ("POST", f"{_AT}/{{model}}/params", adapt(ops.LOG_MODEL_PARAMS, LogParams, _log_params, nothing)),
)
