"""What can be done with runs. What a script writes about its own run is telemetry: one leaf per run and window."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor
from falaj.base.values import Items, Message, Name, Nothing, Number, Personal, Range, Text, value
from falaj.tracking.operations.words import (
    ExperimentNumber,
    Filter,
    Key,
    LoggedModelId,
    LoggedModelOrNone,
    LongText,
    Metric,
    Metrics,
    Milliseconds,
    Order,
    Param,
    Params,
    RunId,
    State,
    Status,
    Tag,
    Tags,
    Title,
)

RunName = Annotated[str, Text(longest=500), Personal()]
UserName = Annotated[str, Text(longest=256), Personal()]


@value
class CreateRun(Message):
    """`started` is in milliseconds since 1970; now, where it is left out. `user` is who the client says it runs for."""

    project: Name
    experiment: ExperimentNumber = 0
    name: RunName = ""
    user: UserName = ""
    started: Milliseconds | None = None
    tags: Tags = ()


@value
class Dataset(Message):
    """Data a run used, as its client describes it. `digest` tells its versions apart."""

    name: Title
    digest: Annotated[str, Text(shortest=1, longest=36)]
    source_type: Annotated[str, Text(longest=100)] = ""
    source: LongText = ""
    schema: Annotated[str, Text(longest=1_048_575)] = ""
    profile: Annotated[str, Text(longest=1_048_575)] = ""


@value
class DatasetInput(Message):
    dataset: Dataset
    tags: Annotated[tuple[Tag, ...], Items(most=100)] = ()


@value
class ModelOutput(Message):
    model: LoggedModelId
    step: Milliseconds = 0


@value
class RunInfo(Message):
    """`started` and `ended` are in milliseconds since 1970; `created_by` is the principal, `user` what the client said."""

    id: RunId
    experiment: ExperimentNumber
    name: RunName
    user: UserName
    status: Status
    started: int
    ended: int | None
    deleted: bool
    created: Moment
    created_by: str


@value
class Run(Message):
    """`metrics` are the last value of each; their history is asked for by key."""

    info: RunInfo
    params: tuple[Param, ...]
    tags: tuple[Tag, ...]
    metrics: tuple[Metric, ...]
    datasets: tuple[DatasetInput, ...] = ()
    models_used: tuple[str, ...] = ()
    models_made: tuple[ModelOutput, ...] = ()


@value
class OneRun(Message):
    project: Name
    run: RunId


@value
class UpdateRun(Message):
    """What is left out stays as it is."""

    project: Name
    run: RunId
    status: Status | None = None
    ended: Milliseconds | None = None
    name: RunName = ""


@value
class LogToRun(Message):
    """Metrics, params and tags, all or none. A param that was logged before with another value is refused.

    `model` and `dataset` are the logged model and the data that these metrics are about, where they are about one.
    """

    project: Name
    run: RunId
    metrics: Metrics = ()
    params: Params = ()
    tags: Tags = ()
    model: LoggedModelOrNone = ""
    dataset_name: Annotated[str, Text(longest=500), Personal()] = ""
    dataset_digest: Annotated[str, Text(longest=36)] = ""


@value
class UntagRun(Message):
    project: Name
    run: RunId
    key: Key


@value
class LogInputs(Message):
    project: Name
    run: RunId
    datasets: Annotated[tuple[DatasetInput, ...], Items(most=1000)] = ()
    models: Annotated[tuple[LoggedModelId, ...], Items(most=1000)] = ()


@value
class LogOutputs(Message):
    project: Name
    run: RunId
    models: Annotated[tuple[ModelOutput, ...], Items(most=1000)] = ()


@value
class SearchRuns(Message):
    """`filter` and `order` are MLflow's language: `metrics.auc > 0.9 AND params.depth = '4'`, `metrics.auc DESC`."""

    project: Name
    experiments: Annotated[tuple[ExperimentNumber, ...], Items(most=1000)] = (0,)
    filter: Filter = ""
    order: Order = ()
    state: State = "active"
    limit: Annotated[int, Range(least=1, most=50_000)] = 100
    cursor: Cursor = ""


@value
class Runs(Message):
    items: tuple[Run, ...]
    next: str = ""


@value
class ReadHistory(Message):
    """All points of one metric, in the order of step and time."""

    project: Name
    run: RunId
    key: Key
    limit: Annotated[int, Range(least=1, most=25_000)] = 25_000
    cursor: Cursor = ""


@value
class History(Message):
    items: tuple[Metric, ...]
    next: str = ""


@value
class ReadCurves(Message):
    """One metric of several runs, thinned to at most `points` each; first, last, and extremes stay.

    `first_step` and `last_step` bound the part that is wanted.
    """

    project: Name
    runs: Annotated[tuple[RunId, ...], Items(least=1, most=100)]
    keys: Annotated[tuple[Key, ...], Items(least=1, most=100)]
    points: Annotated[int, Range(least=2, most=25_000)] = 1000
    first_step: Milliseconds | None = None
    last_step: Milliseconds | None = None


@value
class Curve(Message):
    """`total` counts the points before thinning. Three lists of one length: compact, and what a chart wants."""

    run: RunId
    key: Key
    steps: tuple[int, ...]
    timestamps: tuple[int, ...]
    values: tuple[Number, ...]
    total: int


@value
class Curves(Message):
    items: tuple[Curve, ...]


@value
class ListKeys(Message):
    project: Name
    experiments: Annotated[tuple[ExperimentNumber, ...], Items(most=1000)] = (0,)


@value
class Keys(Message):
    """What the runs of these experiments have: the columns one may look at, filter and order by."""

    metrics: tuple[str, ...]
    params: tuple[str, ...]
    tags: tuple[str, ...]


@value
class FindDatasets(Message):
    project: Name
    experiments: Annotated[tuple[ExperimentNumber, ...], Items(most=1000)] = (0,)


@value
class DatasetSummary(Message):
    experiment: ExperimentNumber
    name: Title
    digest: str
    context: str = ""


@value
class DatasetSummaries(Message):
    items: tuple[DatasetSummary, ...]


@value
class ImportRun(Message):
    """A run that was tracked elsewhere, whole but for its metrics' history and its artifacts, which follow by `run.log`
    and `artifact.put`. Importing the same run again changes nothing."""

    project: Name
    run: RunId
    experiment: ExperimentNumber
    name: RunName = ""
    user: UserName = ""
    status: Status
    started: Milliseconds
    ended: Milliseconds | None = None
    deleted: bool = False
    params: Annotated[tuple[Param, ...], Items(most=10_000)] = ()
    tags: Annotated[tuple[Tag, ...], Items(most=10_000)] = ()
    datasets: Annotated[tuple[DatasetInput, ...], Items(most=1000)] = ()
    source: Annotated[str, Text(longest=500), Personal()] = ""


_WRITE: Final = Permission(name="run.write", group=Group.WRITE)
_READ: Final = Permission(name="run.read", group=Group.READ)

CREATE_RUN: Final = Operation(
    name="run.create",
    summary="Start a run.",
    method="POST",
    path="projects/{project}/runs",
    request=CreateRun,
    result=Run,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_RUN: Final = Operation(
    name="run.show",
    summary="Show a run: parameters, tags, last metrics, inputs and outputs.",
    method="GET",
    path="projects/{project}/runs/{run}",
    request=OneRun,
    result=Run,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
UPDATE_RUN: Final = Operation(
    name="run.update",
    summary="Set a run's status, end or name.",
    method="PUT",
    path="projects/{project}/runs/{run}",
    request=UpdateRun,
    result=RunInfo,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="run",
)
LOG_TO_RUN: Final = Operation(
    name="run.log",
    summary="Log metrics, parameters and tags, all or none.",
    method="POST",
    path="projects/{project}/runs/{run}/log",
    request=LogToRun,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="run",
)
UNTAG_RUN: Final = Operation(
    name="run.untag",
    summary="Remove a tag of a run.",
    method="DELETE",
    path="projects/{project}/runs/{run}/tags",
    request=UntagRun,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="run",
)
LOG_INPUTS: Final = Operation(
    name="run.log-inputs",
    summary="Say which data and which models a run used.",
    method="POST",
    path="projects/{project}/runs/{run}/inputs",
    request=LogInputs,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LOG_OUTPUTS: Final = Operation(
    name="run.log-outputs",
    summary="Say which models a run made.",
    method="POST",
    path="projects/{project}/runs/{run}/outputs",
    request=LogOutputs,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_RUN: Final = Operation(
    name="run.delete",
    summary="Hide a run; restoring brings it back.",
    method="DELETE",
    path="projects/{project}/runs/{run}",
    request=OneRun,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESTORE_RUN: Final = Operation(
    name="run.restore",
    summary="Bring a deleted run back.",
    method="POST",
    path="projects/{project}/runs/{run}/restore",
    request=OneRun,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SEARCH_RUNS: Final = Operation(
    name="run.search",
    summary="Search runs by metrics, parameters, tags and attributes, newest first unless ordered otherwise.",
    method="POST",
    path="projects/{project}/runs/search",
    request=SearchRuns,
    result=Runs,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_HISTORY: Final = Operation(
    name="run.history",
    summary="Read every point of one metric.",
    method="GET",
    path="projects/{project}/runs/{run}/history",
    request=ReadHistory,
    result=History,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_CURVES: Final = Operation(
    name="run.curves",
    summary="Read metrics of several runs, thinned for drawing.",
    method="POST",
    path="projects/{project}/runs/curves",
    request=ReadCurves,
    result=Curves,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_KEYS: Final = Operation(
    name="run.keys",
    summary="List the names of metrics, parameters and tags that runs have.",
    method="POST",
    path="projects/{project}/runs/keys",
    request=ListKeys,
    result=Keys,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FIND_DATASETS: Final = Operation(
    name="run.datasets",
    summary="List the data that the runs of experiments used.",
    method="POST",
    path="projects/{project}/runs/datasets",
    request=FindDatasets,
    result=DatasetSummaries,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
IMPORT_RUN: Final = Operation(
    name="run.import",
    summary="Take over a run that was tracked elsewhere, with its own id and times.",
    method="POST",
    path="projects/{project}/runs/{run}/import",
    request=ImportRun,
    result=RunInfo,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_RUN,
    SHOW_RUN,
    UPDATE_RUN,
    LOG_TO_RUN,
    UNTAG_RUN,
    LOG_INPUTS,
    LOG_OUTPUTS,
    DELETE_RUN,
    RESTORE_RUN,
    SEARCH_RUNS,
    READ_HISTORY,
    READ_CURVES,
    LIST_KEYS,
    FIND_DATASETS,
    IMPORT_RUN,
)
