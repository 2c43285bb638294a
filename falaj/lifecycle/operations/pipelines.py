"""What can be done with pipelines and their runs."""

from dataclasses import field
from typing import Annotated, Any, Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, NameOrNone, Nothing, Personal, Range, Text, value
from falaj.collaboration.operations.words import Person
from falaj.lifecycle.operations.words import (
    DECIDE,
    READ,
    RUN,
    TELL,
    WRITE,
    Definition,
    Digest,
    RunState,
    Sentence,
    StepKind,
    StepName,
    StepState,
    Word,
)

Number = Annotated[int, Range(least=0, most=2**31 - 1)]
# An id, or as many of its last digits as tell it apart.
RunId = Annotated[
    str,
    Text(
        pattern=r"^[a-f0-9]{6,32}$",
        longest=32,
        says="must be the id of a run of a pipeline, or six or more of the last digits of it, such as 5c6d7e",
    ),
]
Reason = Annotated[str, Text(longest=2000), Personal()]
Item = Annotated[int, Range(least=-1, most=1000)]


@value
class Apply(Message):
    """The same definition again is the same version."""

    project: Name
    pipeline: Name
    definition: Definition


@value
class Pipeline(Message):
    """`last` is the state of its newest run, `asking` where a step of it waits for somebody, empty before the first; `live`
    counts those that are not over."""

    id: Id
    name: Name
    version: int
    digest: Digest
    definition: Definition
    changed: Moment
    changed_by: Person
    last: str
    live: int


@value
class OnePipeline(Message):
    """`version` 0 is the newest."""

    project: Name
    pipeline: Name
    version: Number = 0


@value
class ListPipelines(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Listed(Message):
    """A pipeline as lists have it."""

    name: Name
    version: int
    steps: int
    words: Sentence
    changed: Moment
    last: str
    live: int


@value
class Pipelines(Message):
    items: tuple[Listed, ...]
    next: str = ""


@value
class StartRun(Message):
    """- `version`: of the pipeline; 0 is the newest, and its author has to be allowed what it does. `parameters`: by name.
    - `anew`: nothing that came out before is taken.
    - `of` and `from_step`: a run that begins with that step; what stood before it is taken from the run `of`.
    - `only`: these steps and what they need; empty for all.
    - `replay_of`: a version such as `late:3` that it makes again. What it registers is marked so, and is nothing's new version.
    """

    project: Name
    pipeline: Name
    version: Number = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    anew: bool = False
    of: Annotated[str, Text(longest=32)] = ""
    from_step: Annotated[str, Text(longest=100)] = ""
    only: tuple[StepName, ...] = ()
    replay_of: Annotated[str, Text(longest=300)] = ""
    words: Reason = ""


@value
class StepShown(Message):
    """`item` is its place in a fan-out, -1 where it is not of one. `attempt` counts from 1. `words` say why it is as it is.
    `job` is what it runs in; `cached` the run that its result was taken from. Of an approval `question` is what it asks, and
    `decided_by` who agreed or refused."""

    name: StepName
    kind: StepKind
    item: int
    state: StepState
    attempt: int
    arguments: dict[str, Any]
    result: Any
    words: Sentence
    job: str
    cached: str
    started: Moment | None
    ended: Moment | None
    question: Sentence = ""
    decided_by: str = ""


@value
class PipelineRun(Message):
    """`started_by` is in whose name it acts; `trigger` the name of what started it, empty where somebody did. `why` is what
    they or it said. `asking` is what a step of it asks somebody, empty where none does. `steps` in the order of the
    pipeline."""

    id: Id
    pipeline: Name
    version: int
    state: RunState
    parameters: dict[str, Any]
    words: Sentence
    why: Sentence
    result: Any
    trigger: str
    started: Moment
    started_by: Person
    ended: Moment | None
    asking: Sentence = ""
    steps: tuple[StepShown, ...] = ()


@value
class OneRun(Message):
    project: Name
    run: RunId


@value
class ListRuns(Message):
    """Newest first."""

    project: Name
    pipeline: NameOrNone = ""
    state: Annotated[
        str,
        Text(pattern=r"^(running|done|failed|cancelled)?$", longest=10, says="must be running, done, failed or cancelled"),
    ] = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class PipelineRuns(Message):
    items: tuple[PipelineRun, ...]
    next: str = ""


@value
class Cancel(Message):
    project: Name
    run: RunId
    reason: Reason = ""


@value
class Decide(Message):
    """`item` where the step is done for each of a list."""

    project: Name
    run: RunId
    step: StepName
    item: Item = -1
    agree: bool
    reason: Reason = ""


@value
class SendEvent(Message):
    """To a run that waits for it, or will."""

    project: Name
    run: RunId
    event: Annotated[str, Text(shortest=1, longest=200)]
    content: dict[str, Any] = field(default_factory=dict)


@value
class ReadTask(Message):
    """Asked by a step's own job, which says its id."""

    project: Name
    run: Id
    step: StepName
    item: Item = -1
    job: Id


@value
class Task(Message):
    """What a step's function is called with."""

    file: str
    function: str
    result: str
    attempt: int
    arguments: dict[str, Any]
    kinds: dict[str, str]  # of the arguments that came from parameters and steps that said so


@value
class TellResult(Message):
    """Told by a step's own job, before it ends well: it counts once the job has. `family` and `words` where it fails."""

    project: Name
    run: Id
    step: StepName
    item: Item = -1
    job: Id
    result: Any = None
    family: Annotated[str, Text(pattern=r"^(temporary|permanent)?$", longest=10)] = ""
    words: Annotated[str, Text(longest=2000)] = ""


@value
class FindMaker(Message):
    """The run of a pipeline that made a version of a model."""

    project: Name
    model: Word
    version: Annotated[int, Range(least=1, most=2**31 - 1)]


@value
class Maker(Message):
    """`item` of the step where that is done for each of a list. `first` is the step that making it began with: where the files
    of a run were registered, the one that made this run; empty where no step did."""

    run: Id
    pipeline: Name
    version: int
    step: StepName
    item: int
    first: Annotated[str, Text(longest=100)]


APPLY_PIPELINE: Final = Operation(
    name="pipeline.apply",
    summary="Write a pipeline down, checked; runs under way keep the version they began with.",
    method="PUT",
    path="projects/{project}/pipelines/{pipeline}",
    request=Apply,
    result=Pipeline,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_PIPELINE: Final = Operation(
    name="pipeline.show",
    summary="Show a pipeline.",
    method="GET",
    path="projects/{project}/pipelines/{pipeline}",
    request=OnePipeline,
    result=Pipeline,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_PIPELINES: Final = Operation(
    name="pipeline.list",
    summary="List the project's pipelines.",
    method="GET",
    path="projects/{project}/pipelines",
    request=ListPipelines,
    result=Pipelines,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_PIPELINE: Final = Operation(
    name="pipeline.delete",
    summary="Delete a pipeline with its triggers; what its runs did stays on record.",
    method="DELETE",
    path="projects/{project}/pipelines/{pipeline}",
    request=OnePipeline,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
START_RUN: Final = Operation(
    name="pipeline.run",
    summary="Run a pipeline.",
    method="POST",
    path="projects/{project}/pipelines/{pipeline}/runs",
    request=StartRun,
    result=PipelineRun,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_RUN: Final = Operation(
    name="pipeline.show-run",
    summary="Show a run of a pipeline with its steps.",
    method="GET",
    path="projects/{project}/pipeline-runs/{run}",
    request=OneRun,
    result=PipelineRun,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_RUNS: Final = Operation(
    name="pipeline.list-runs",
    summary="List runs of pipelines, newest first, without their steps.",
    method="GET",
    path="projects/{project}/pipeline-runs",
    request=ListRuns,
    result=PipelineRuns,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
CANCEL_RUN: Final = Operation(
    name="pipeline.cancel",
    summary="Stop a run: nothing more is begun, and its jobs are stopped.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/cancel",
    request=Cancel,
    result=PipelineRun,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESUME_RUN: Final = Operation(
    name="pipeline.resume",
    summary="Go on with a run that failed or was cancelled: what was done stays done.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/resume",
    request=OneRun,
    result=PipelineRun,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DECIDE_STEP: Final = Operation(
    name="pipeline.decide",
    summary="Agree to what a run asks about, or refuse it.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/decisions",
    request=Decide,
    result=PipelineRun,
    permission=DECIDE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SEND_EVENT: Final = Operation(
    name="pipeline.send",
    summary="Send a run an event that one of its steps waits for.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/events",
    request=SendEvent,
    result=Nothing,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
READ_TASK: Final = Operation(
    name="pipeline.task",
    summary="What a step's function is called with, for its job.",
    method="GET",
    path="projects/{project}/pipeline-runs/{run}/tasks/{step}",
    request=ReadTask,
    result=Task,
    permission=TELL,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
TELL_RESULT: Final = Operation(
    name="pipeline.tell",
    summary="What came out of a step's function, told by its job.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/tasks/{step}",
    request=TellResult,
    result=Nothing,
    permission=TELL,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
FIND_MAKER: Final = Operation(
    name="pipeline.find-maker",
    summary="Which run of a pipeline made a version of a model.",
    method="GET",
    path="projects/{project}/pipeline-makers",
    request=FindMaker,
    result=Maker,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (
    APPLY_PIPELINE,
    SHOW_PIPELINE,
    LIST_PIPELINES,
    DELETE_PIPELINE,
    START_RUN,
    SHOW_RUN,
    LIST_RUNS,
    CANCEL_RUN,
    RESUME_RUN,
    DECIDE_STEP,
    SEND_EVENT,
    READ_TASK,
    TELL_RESULT,
    FIND_MAKER,
)
# What happened to a run by itself is on record under these; they are reachable by no route.
END_RUN: Final = Operation(
    name="pipeline.end",
    summary="A run of a pipeline ended.",
    method="POST",
    path="projects/{project}/pipeline-runs/{run}/end",
    request=OneRun,
    result=Nothing,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
