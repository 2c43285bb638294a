"""What can be done with jobs: commands that run somewhere, sometime, with what they asked for and nothing else."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, NameOrNone, Nothing, Range, Text, value
from falaj.collaboration.operations.words import Person
from falaj.jobs.operations.words import (
    MOST_CONTINUED,
    MOST_TASKS,
    HostPort,
    JobId,
    JobName,
    JobNameOrNone,
    JobState,
    Label,
    Line,
    OutputName,
    Place,
    Priority,
    QueueName,
    QueueNameOrNone,
    Reason,
    Resources,
    Seconds,
    SecretName,
    Topology,
    Usage,
    Variable,
)


@value
class Input(Message):
    """Something of the project that the job reads, by its id as lineage has it: its run is recorded as coming from that."""

    kind: Annotated[
        str, Text(pattern=r"^(run|model|version|dataset)$", longest=20, says="must be run, model, version or dataset")
    ]
    id: Annotated[str, Text(longest=200)]


@value
class Setting(Message):
    """A variable that the job's processes see. What nobody should read belongs in a secret."""

    name: Variable
    value: Annotated[str, Text(longest=10_000)]


@value
class Spec(Message):
    """A job as it was asked for.

    - `command`: the program and its arguments, run in the folder that `source` unpacks to.
    - `source`: digest of a tar sent before with `job.upload-source`; empty for none.
    - `lock`: text of a requirements file with pinned versions; `image`: a container image. At most one of them.
    - `tasks`: so many equal processes groups at once or not at all; with `least`, an elastic job makes do with fewer.
    - `seconds`: what it will take, if you know; the queue may go by it. `timeout`: after which it is ended.
    - `secrets`: names of the project's secrets it sees as variables. `hosts`: what it may reach besides the platform.
    - `permissions`: what its token may do in its project; empty for what a training needs (runs, metrics, artifacts, models).
    - `run`: the id of the run it writes to; empty makes one where `experiment` is given.
    - `outputs`: files and folders below `$FALAJ_OUTPUT` that are kept with its run once it is done; without one, it failed.
    - `checkpoints`: asked to stop, it saves what it did and goes on from there, so that stopping it costs little.
    - `continues`: jobs that it repeats, newest first, whose checkpoints it goes on from. `job.retry` says so, and nobody else.
    - `preemptible`: without it nothing but its own end, its host's or a person's order stops it; it then cannot borrow.
    """

    name: JobNameOrNone = ""
    command: Annotated[tuple[Annotated[str, Text(longest=100_000)], ...], Items(least=1, most=1000)]
    source: Annotated[
        str, Text(pattern=r"^([0-9a-f]{64})?$", longest=64, says="must be the digest that the upload of its files gave")
    ] = ""
    lock: Annotated[str, Text(longest=1_000_000)] = ""
    image: Annotated[str, Text(longest=500)] = ""
    resources: Resources = Resources()
    tasks: Annotated[int, Range(least=1, most=MOST_TASKS)] = 1
    least: Annotated[int, Range(least=0, most=MOST_TASKS)] = 0
    queue: QueueNameOrNone = ""
    priority: Priority = "normal"
    zone: NameOrNone = ""
    seconds: Seconds = 0
    timeout: Seconds = 86_400
    retries: Annotated[int, Range(least=0, most=100)] = 2
    grace: Annotated[int, Range(least=0, most=3600)] = 30
    deadline: Moment | None = None
    variables: Annotated[tuple[Setting, ...], Items(most=200)] = ()
    secrets: Annotated[tuple[SecretName, ...], Items(most=50)] = ()
    hosts: Annotated[tuple[HostPort, ...], Items(most=50)] = ()
    permissions: Annotated[tuple[Annotated[str, Text(longest=100)], ...], Items(most=50)] = ()
    inputs: Annotated[tuple[Input, ...], Items(most=100)] = ()
    outputs: Annotated[tuple[OutputName, ...], Items(most=100)] = ()
    experiment: Annotated[str, Text(longest=500)] = ""
    run: Annotated[str, Text(longest=32)] = ""
    topology: Topology = "any"
    label: Label = ""
    apart_from: Annotated[tuple[Label, ...], Items(most=20)] = ()
    checkpoints: bool = False
    continues: Annotated[tuple[Id, ...], Items(most=MOST_CONTINUED)] = ()
    preemptible: bool = True
    disk_mib: Annotated[int, Range(least=16, most=2**30)] = 10_240


@value
class Submit(Message):
    project: Name
    spec: Spec


@value
class Forecast(Message):
    """When it would start, with four chances in five between `earliest` and `latest`; None where nobody can say.

    `reason` says what it waits for, in one sentence.
    """

    earliest: Moment | None
    expected: Moment | None
    latest: Moment | None
    reason: Line


@value
class Planned(Message):
    """What would happen to a job if it were submitted now."""

    queue: QueueName
    places: tuple[Place, ...]  # where, when it would start at once
    forecast: Forecast
    cost: int  # in millionths of the currency, if it runs for as long as it says; 0 where it does not say
    cost_most: int  # if it runs for as long as it may; 0 where nothing bounds that
    remarks: tuple[Line, ...] = ()


@value
class Attempt(Message):
    """One try at running a job."""

    id: Id
    number: int
    engine: str
    places: tuple[Place, ...]
    planned: Moment
    started: Moment | None
    ended: Moment | None
    cause: str
    code: int | None
    words: Line
    usage: Usage


@value
class Attempts(Message):
    """Newest first."""

    items: tuple[Attempt, ...]


@value
class Job(Message):
    """`spec` has the values of no secret. `cause` says why it ended, as `words` does for people. `served` is seconds of work
    that need not be done again."""

    id: Id
    name: JobName
    state: JobState
    queue: QueueName
    priority: Priority
    zone: str
    spec: Spec
    run: str
    submitted: Moment
    submitted_by: Person
    started: Moment | None
    ended: Moment | None
    cause: str
    code: int | None
    words: Line
    places: tuple[Place, ...]
    tasks: int  # that it runs with now
    attempts: int
    next_try: Moment | None
    checkpointed: Moment | None
    progress: float  # 0 to 1, as the job said
    usage: Usage  # of a try that runs as of a while ago
    flags: tuple[Line, ...] = ()  # what stands out about it while it runs


@value
class Submitted(Message):
    job: Job
    plan: Planned


@value
class OneJob(Message):
    project: Name
    job: JobId


@value
class ListJobs(Message):
    """Newest first; by state and queue where they are given. Of a spec that is long only the beginning is told."""

    project: Name
    state: Annotated[
        str,
        Text(
            pattern=r"^(waiting|starting|running|stopping|done|failed|cancelled|live|over)?$",
            longest=20,
            says="must be waiting, starting, running, stopping, done, failed, cancelled, live or over",
        ),
    ] = ""
    queue: QueueNameOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Jobs(Message):
    items: tuple[Job, ...]
    next: str = ""


@value
class Cancel(Message):
    project: Name
    job: JobId
    reason: Reason = ""


@value
class Retry(Message):
    """Submits the same again: the same source, environment and command, under a new id. Where it saved checkpoints and was not
    done, it goes on from those that are still there."""

    project: Name
    job: JobId


@value
class ReadLog(Message):
    """From `offset` on; of the attempt with that number, or of the last one."""

    project: Name
    job: JobId
    attempt: Annotated[int, Range(least=0, most=2**31 - 1)] = 0
    offset: Annotated[int, Range(least=0, most=2**62)] = 0
    limit: Annotated[int, Range(least=1, most=1_048_576)] = 262_144


@value
class LogPart(Message):
    """`next` is where to read on. `over` says that no more will come. Bytes that are no text are shown as replacement marks.
    `note` says why there is nothing to read, where it was written and cannot be had here yet."""

    text: str
    next: int
    over: bool
    note: str = ""


@value
class JobEvent(Message):
    """Something that happened to a job."""

    at: Moment
    kind: Annotated[str, Text(longest=30)]
    words: Line
    attempt: int = 0


@value
class ReadEvents(Message):
    project: Name
    job: JobId
    limit: Limit = 1000
    cursor: Cursor = ""


@value
class JobEvents(Message):
    items: tuple[JobEvent, ...]
    next: str = ""


@value
class ShareView(Message):
    """Of one resource, in its unit: what the queue is owed, uses, has borrowed and lent, and what the job asks for."""

    resource: str
    nominal: int
    used: int
    borrowed: int
    lent: int
    asked: int
    free: int


@value
class Why(Message):
    """Why a job waits, or what became of it: the sentence, the rule behind it, and the shares it turns on.

    `before` counts the jobs of the same queue that go first; `ahead` names those of the asker's own project.
    """

    job: Id
    state: JobState
    rule: str
    sentence: Line
    before: int
    ahead: tuple[Id, ...]
    shares: tuple[ShareView, ...]
    hints: tuple[Line, ...] = ()


@value
class Report(Message):
    """A job about itself: a checkpoint it has written, and how far it is."""

    project: Name
    job: JobId
    checkpoint: bool = False
    progress: Annotated[float, Range(least=0, most=1)] = 0.0


@value
class ReadUsage(Message):
    """Points over the job's life, at most 200."""

    project: Name
    job: JobId


@value
class UsagePoint(Message):
    at: Moment
    cpus: float
    memory_mib: int
    gpu_busy: float
    gpu_memory_mib: int = 0


@value
class UsagePoints(Message):
    points: tuple[UsagePoint, ...]


@value
class UploadSource(Message):
    """The bytes of a tar; sent twice, it is kept once."""

    project: Name
    zone: NameOrNone = ""


@value
class Source(Message):
    digest: str
    size: int
    files: int


READ: Final = Permission(name="job.read", group=Group.READ)
READ_LOGS: Final = Permission(name="job.read-log", group=Group.READ)
SUBMIT: Final = Permission(name="job.submit", group=Group.WRITE)
REPORT: Final = Permission(name="job.report", group=Group.WRITE)

SUBMIT_JOB: Final = Operation(
    name="job.submit",
    summary="Run a command when and where there is a share for it.",
    method="POST",
    path="projects/{project}/jobs",
    request=Submit,
    result=Submitted,
    permission=SUBMIT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
# Asked about beside `job.submit`, and reachable by no route of its own.
OUTRANK: Final = Operation(
    name="job.urgent",
    summary="Submit with a priority above normal to a queue that other projects use, too.",
    method="POST",
    path="projects/{project}/urgent-jobs",
    request=Submit,
    result=Submitted,
    permission=Permission(name="job.urgent", group=Group.OPERATE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PLAN_JOB: Final = Operation(
    name="job.plan",
    summary="What would happen to a job: where, when and at what cost. Nothing is submitted.",
    method="POST",
    path="projects/{project}/job-plans",
    request=Submit,
    result=Planned,
    permission=SUBMIT,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_JOBS: Final = Operation(
    name="job.list",
    summary="List jobs, newest first.",
    method="GET",
    path="projects/{project}/jobs",
    request=ListJobs,
    result=Jobs,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_JOB: Final = Operation(
    name="job.show",
    summary="Show a job: what it is, where it is, what it used.",
    method="GET",
    path="projects/{project}/jobs/{job}",
    request=OneJob,
    result=Job,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_ATTEMPTS: Final = Operation(
    name="job.attempts",
    summary="Every try at running a job.",
    method="GET",
    path="projects/{project}/jobs/{job}/attempts",
    request=OneJob,
    result=Attempts,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
CANCEL_JOB: Final = Operation(
    name="job.cancel",
    summary="Stop a job, or take it out of its queue.",
    method="POST",
    path="projects/{project}/jobs/{job}/cancel",
    request=Cancel,
    result=Job,
    permission=SUBMIT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RETRY_JOB: Final = Operation(
    name="job.retry",
    summary="Submit the same job again.",
    method="POST",
    path="projects/{project}/jobs/{job}/retry",
    request=Retry,
    result=Submitted,
    permission=SUBMIT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
READ_LOG: Final = Operation(
    name="job.log",
    summary="What a job wrote.",
    method="GET",
    path="projects/{project}/jobs/{job}/log",
    request=ReadLog,
    result=LogPart,
    permission=READ_LOGS,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_EVENTS: Final = Operation(
    name="job.events",
    summary="What happened to a job, oldest first.",
    method="GET",
    path="projects/{project}/jobs/{job}/events",
    request=ReadEvents,
    result=JobEvents,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
EXPLAIN_JOB: Final = Operation(
    name="job.why",
    summary="Why a job waits: which rule, which share, who is before it.",
    method="GET",
    path="projects/{project}/jobs/{job}/why",
    request=OneJob,
    result=Why,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FORECAST_JOB: Final = Operation(
    name="job.eta",
    summary="When a job will start, as an interval.",
    method="GET",
    path="projects/{project}/jobs/{job}/eta",
    request=OneJob,
    result=Forecast,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_JOB_USAGE: Final = Operation(
    name="job.usage",
    summary="What a job used over its life.",
    method="GET",
    path="projects/{project}/jobs/{job}/usage",
    request=ReadUsage,
    result=UsagePoints,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
REPORT_JOB: Final = Operation(
    name="job.report",
    summary="A job says that it wrote a checkpoint, and how far it is.",
    method="POST",
    path="projects/{project}/jobs/{job}/report",
    request=Report,
    result=Nothing,
    permission=REPORT,
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="job",
)
UPLOAD_SOURCE: Final = Operation(
    name="job.upload-source",
    summary="Send the files a job runs with, as a tar.",
    method="POST",
    path="projects/{project}/job-sources",
    request=UploadSource,
    result=Source,
    permission=SUBMIT,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)
READ_SOURCE: Final = Operation(
    name="job.source",
    summary="The files a job runs with, as a tar.",
    method="GET",
    path="projects/{project}/jobs/{job}/source",
    request=OneJob,
    result=Download,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (
    SUBMIT_JOB,
    PLAN_JOB,
    LIST_JOBS,
    SHOW_JOB,
    LIST_ATTEMPTS,
    CANCEL_JOB,
    RETRY_JOB,
    READ_LOG,
    READ_EVENTS,
    EXPLAIN_JOB,
    FORECAST_JOB,
    READ_JOB_USAGE,
    REPORT_JOB,
    UPLOAD_SOURCE,
    READ_SOURCE,
)
