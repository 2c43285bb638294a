"""What can be done with logged models: what a run made, before anybody registered it."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Items, Message, Name, Nothing, Text, value
from falaj.tracking.operations.words import (
    ExperimentNumber,
    Filter,
    Key,
    LoggedModelId,
    Metric,
    Param,
    Params,
    RunOrNone,
    Tag,
    Tags,
    Title,
)

ModelStatus = Literal["PENDING", "READY", "UPLOAD_FAILED"]


@value
class CreateLoggedModel(Message):
    """Where `name` is left out it gets one."""

    project: Name
    experiment: ExperimentNumber = 0
    name: Annotated[str, Text(longest=500)] = ""
    kind: Annotated[str, Text(longest=500)] = ""
    run: RunOrNone = ""
    params: Params = ()
    tags: Tags = ()


@value
class ModelMetric(Message):
    """A metric of a model, with the run that measured it and the data it was measured on."""

    metric: Metric
    run: str
    dataset_name: str = ""
    dataset_digest: str = ""


@value
class LoggedModel(Message):
    id: LoggedModelId
    experiment: ExperimentNumber
    name: Title
    kind: str
    run: str
    status: ModelStatus
    created: Moment
    changed: Moment
    created_by: str
    params: tuple[Param, ...]
    tags: tuple[Tag, ...]
    metrics: tuple[ModelMetric, ...]


@value
class OneLoggedModel(Message):
    project: Name
    model: LoggedModelId


@value
class FinishLoggedModel(Message):
    project: Name
    model: LoggedModelId
    status: ModelStatus


@value
class MeasuredOn(Message):
    """Data that metrics were measured on; any version of it, where `digest` is left out."""

    name: Title
    digest: Annotated[str, Text(longest=36)] = ""


@value
class ModelOrder(Message):
    """`field` is an attribute such as `name` or `creation_time`, or a metric written `metrics.auc`.

    With `dataset`, the metric's last value on that data counts.
    """

    field: Annotated[str, Text(shortest=1, longest=500)]
    ascending: bool = True
    dataset: MeasuredOn | None = None


@value
class SearchLoggedModels(Message):
    """`filter` is MLflow's language: `metrics.auc > 0.9 AND params.depth = '4'`. Newest first unless ordered otherwise.

    With `datasets`, only metrics measured on one of them count for the filter, and a model without any is not found.
    """

    project: Name
    experiments: Annotated[tuple[ExperimentNumber, ...], Items(most=1000)] = (0,)
    filter: Filter = ""
    datasets: Annotated[tuple[MeasuredOn, ...], Items(most=100)] = ()
    order: Annotated[tuple[ModelOrder, ...], Items(most=20)] = ()
    limit: Limit = 100
    cursor: Cursor = ""


@value
class LoggedModels(Message):
    items: tuple[LoggedModel, ...]
    next: str = ""


@value
class TagLoggedModel(Message):
    project: Name
    model: LoggedModelId
    tags: Tags


@value
class UntagLoggedModel(Message):
    project: Name
    model: LoggedModelId
    key: Key


@value
class LogModelParams(Message):
    project: Name
    model: LoggedModelId
    params: Params


_WRITE: Final = Permission(name="logged-model.write", group=Group.WRITE)
_READ: Final = Permission(name="logged-model.read", group=Group.READ)

CREATE_LOGGED_MODEL: Final = Operation(
    name="logged-model.create",
    summary="Announce a model that a run makes; its files follow as artifacts.",
    method="POST",
    path="projects/{project}/logged-models",
    request=CreateLoggedModel,
    result=LoggedModel,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_LOGGED_MODEL: Final = Operation(
    name="logged-model.show",
    summary="Show a logged model.",
    method="GET",
    path="projects/{project}/logged-models/{model}",
    request=OneLoggedModel,
    result=LoggedModel,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FINISH_LOGGED_MODEL: Final = Operation(
    name="logged-model.finish",
    summary="Say that a logged model is complete, or that making it failed.",
    method="PUT",
    path="projects/{project}/logged-models/{model}/status",
    request=FinishLoggedModel,
    result=LoggedModel,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_LOGGED_MODEL: Final = Operation(
    name="logged-model.delete",
    summary="Delete a logged model; registered versions made of it keep their files.",
    method="DELETE",
    path="projects/{project}/logged-models/{model}",
    request=OneLoggedModel,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SEARCH_LOGGED_MODELS: Final = Operation(
    name="logged-model.search",
    summary="Search logged models.",
    method="POST",
    path="projects/{project}/logged-models/search",
    request=SearchLoggedModels,
    result=LoggedModels,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
TAG_LOGGED_MODEL: Final = Operation(
    name="logged-model.tag",
    summary="Set tags of a logged model.",
    method="PUT",
    path="projects/{project}/logged-models/{model}/tags",
    request=TagLoggedModel,
    result=LoggedModel,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNTAG_LOGGED_MODEL: Final = Operation(
    name="logged-model.untag",
    summary="Remove a tag of a logged model.",
    method="DELETE",
    path="projects/{project}/logged-models/{model}/tags",
    request=UntagLoggedModel,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LOG_MODEL_PARAMS: Final = Operation(
    name="logged-model.log-params",
    summary="Add parameters to a logged model.",
    method="POST",
    path="projects/{project}/logged-models/{model}/params",
    request=LogModelParams,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_LOGGED_MODEL,
    SHOW_LOGGED_MODEL,
    FINISH_LOGGED_MODEL,
    DELETE_LOGGED_MODEL,
    SEARCH_LOGGED_MODELS,
    TAG_LOGGED_MODEL,
    UNTAG_LOGGED_MODEL,
    LOG_MODEL_PARAMS,
)
