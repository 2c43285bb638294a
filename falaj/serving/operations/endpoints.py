"""What can be done with endpoints: names that clients call, revisions that answer, and who gets which."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, NameOrNone, Nothing, Range, Text, value
from falaj.datasets.operations.features import MOST_FEATURES, FeatureRef
from falaj.registry.operations.promotions import Person
from falaj.registry.operations.words import AliasNameOrNone, ModelName
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.words import (
    Arm,
    Arms,
    CallbackHost,
    ChangeKind,
    EndpointName,
    Label,
    Mode,
    Reason,
    RevisionNumber,
    RevisionNumberOrNone,
    Share,
    Steps,
    VariantNameOrNone,
    VersionNumberOrNone,
)


@value
class Options(Message):
    """How an endpoint answers. Every field has a value that suits most.

    - `latency_ms`: the objective; batches grow as long as they stay within it, and what would wait longer is refused early.
    - `concurrency`: the most predictions under way or waiting on one worker; 0 lets the plane decide.
    - `calls_per_second`: of one caller; 0 for no limit.
    - `nan`: whether a NaN or an infinity among the inputs is refused.
    - `idle_seconds`: after so long without a call the model is put out of memory and loaded by the next one; 0 keeps it.
    - `log_share`: of the calls whose inputs and answers are written to the project's zone; `masked` names the columns left out.
    - `callbacks`: the hosts that asynchronous answers may be sent to, each with a port or for any.
    - `device`: `auto` takes a GPU where the plane has one that is well, and goes back to the CPU where not.
    """

    latency_ms: Annotated[int, Range(least=1, most=60_000)] = 100
    concurrency: Annotated[int, Range(least=0, most=100_000)] = 0
    calls_per_second: Annotated[int, Range(least=0, most=1_000_000)] = 0
    nan: Literal["allow", "refuse"] = "allow"
    idle_seconds: Annotated[int, Range(least=0, most=30 * 86_400)] = 0
    log_share: Share = 0
    masked: Annotated[tuple[Annotated[str, Text(longest=200)], ...], Items(most=200)] = ()
    callbacks: Annotated[tuple[CallbackHost, ...], Items(most=20)] = ()
    device: Literal["auto", "cpu", "gpu"] = "auto"


@value
class Deploy(Message):
    """Makes a revision of a registered version and gives it traffic; the endpoint is made where there is none.

    The version is named by number or by alias (the alias as it points now; without either, `champion`). `live` gives it
    everything. `canary`, `shadow` and `ab` give it `share` beside what is there. `options` left out stay as the endpoint has
    them. `allow_python` lets a model that cannot be converted run in the isolated Python runtime, where the
    project's policy allows that.

    `variant` is the form of the version that is served: the original where it is left out, `best` for the fastest that is
    certified, or a variant's name. With `ladder` the certified variants that are faster go along: one after the other they
    answer while the revision is overloaded.

    `features` are looked up by the keys of entities that callers send, before the model is asked, and take the place of its
    columns of those names: of a view all that the model takes, or the one that is named. Left out they stay as the revision
    has them that answers now; an empty list ends them.
    """

    project: Name
    endpoint: EndpointName
    model: ModelName
    version: VersionNumberOrNone = 0
    alias: AliasNameOrNone = ""
    mode: Mode = "live"
    share: Share = 1_000
    label: Label = ""
    steps: Steps = Steps()
    zone: NameOrNone = ""
    options: Options | None = None
    allow_python: bool = False
    variant: VariantNameOrNone = ""
    ladder: bool = False
    features: Annotated[tuple[FeatureRef, ...], Items(most=MOST_FEATURES)] | None = None
    reason: Reason = ""


@value
class Rung(Message):
    """A form that a revision can answer in: its own first, then faster and faster variants.

    `throughput` is in that of the original, 0 for a revision's own. `latency_ms` of one row was certified on a host like
    `host`. `workers` answer by it now, `requests` were answered by it and `falls` made to it on the planes that report now.
    """

    name: str
    runtime: str
    size: int
    certificate: str
    host: str
    latency_ms: float
    throughput: float
    workers: int = 0
    requests: int = 0
    falls: int = 0


@value
class Revision(Message):
    """What an endpoint runs: one version in one servable form, for ever. `converted` says what it was made from, if it was.

    `variant` is the optimised form of the version that it is, empty for the original; `certificate` is the digest of the
    certificate that held for it when it was deployed. `ladder` has every form it can answer in, where there are several.

    `cold_start_ms` is how long it took to load the last time, on the plane where that took longest; 0 where none has told.
    `features` are looked up before it is asked, such as `clicks@2:clicks_7d`, by the `keys` that callers give.
    """

    id: Id
    number: RevisionNumber
    model: ModelName
    version: int
    version_id: Id
    runtime: str
    size: int
    digest: str
    converted: str
    created: Moment
    created_by: Person
    quarantined: str = ""  # why it is not used any more; empty while it may be
    cold_start_ms: float = 0.0
    features: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    variant: str = ""
    certificate: str = ""
    ladder: tuple[Rung, ...] = ()


@value
class Endpoint(Message):
    """`ready` counts the planes that answer with the present split, of `planes` that should. `urls` are where those
    that do can be asked, `url` is the first of them, and empty while there is none. `certificates` (PEM) are what they show
    under TLS, for those who know no authority that signed them. `remarks` say how variants do on planes where they were not
    certified, and which are not used there.

    `step` and `next_step` say how far a canary that grows by itself has come and when it goes on.
    """

    id: Id
    name: EndpointName
    zone: str
    arms: tuple[Arm, ...]
    revisions: tuple[Revision, ...]  # of the arms, and the one a rollback would go to
    back_to: RevisionNumberOrNone  # where a rollback would go; 0 for nowhere
    steps: Steps
    step: int
    next_step: Moment | None
    options: Options
    planes: int
    ready: int
    url: str
    urls: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    created: Moment
    changed: Moment
    serial: int  # of the state that says so; a plane that reports this one or a later one answers by it


@value
class Deployment(Message):
    """`remarks` says what else one should know: warnings about the model, how it was converted, how well the two agree."""

    endpoint: Endpoint
    revision: RevisionNumber
    remarks: tuple[str, ...] = ()


@value
class OneEndpoint(Message):
    project: Name
    endpoint: EndpointName


@value
class ListEndpoints(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Endpoints(Message):
    items: tuple[Endpoint, ...]
    next: str = ""


@value
class Split(Message):
    """The live shares sum to the whole."""

    project: Name
    endpoint: EndpointName
    arms: Arms
    reason: Reason = ""


@value
class PromoteRevision(Message):
    """Gives everything to one revision; without a number, to the newest that has a part now."""

    project: Name
    endpoint: EndpointName
    revision: RevisionNumberOrNone = 0
    reason: Reason = ""


@value
class RollBack(Message):
    """Back to the split before the present one; again, to the one before that."""

    project: Name
    endpoint: EndpointName
    reason: Reason = ""


@value
class Configure(Message):
    project: Name
    endpoint: EndpointName
    options: Options


@value
class Change(Message):
    """One change of who gets what. `by` is empty where the platform decided, and `reason` then says why."""

    id: Id
    kind: ChangeKind
    before: tuple[Arm, ...]
    arms: tuple[Arm, ...]
    by: Person | None
    at: Moment
    reason: Reason


@value
class ReadChanges(Message):
    """Newest first."""

    project: Name
    endpoint: EndpointName
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Changes(Message):
    items: tuple[Change, ...]
    next: str = ""


@value
class ReadRevisions(Message):
    """Newest first."""

    project: Name
    endpoint: EndpointName
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Revisions(Message):
    items: tuple[Revision, ...]
    next: str = ""


@value
class ReadTraffic(Message):
    """The last `seconds`, at most 200 points."""

    project: Name
    endpoint: EndpointName
    seconds: Annotated[int, Range(least=10, most=30 * 86_400)] = 900


@value
class TrafficPoint(Message):
    """What a revision did from `at` on, for `seconds`. Latencies are in milliseconds, from the first byte to the last."""

    at: Moment
    seconds: float
    revision: RevisionNumber
    requests: int
    errors: int
    shed: int
    rows: int
    batches: int
    p50: float
    p90: float
    p99: float
    compared: int = 0  # of a shadow: answers that were held against the live ones
    differed: int = 0
    pinned: int = 0  # of the requests, those whose caller chose the revision: it is not judged by them
    unlogged: int = 0  # that were to be logged and were not: too many waited, or storage took nothing in


@value
class ServingHost(Message):
    """A plane that answers for the endpoint's zone, and what it had to do when it reported a moment ago, for all endpoints
    together."""

    plane: Name
    workers: int
    load: PlaneLoad
    sentence: str


@value
class Traffic(Message):
    """`hosts` are the planes that were heard of late, the busiest first, twenty at most."""

    points: tuple[TrafficPoint, ...]
    hosts: tuple[ServingHost, ...] = ()


@value
class ReadLogs(Message):
    """Newest first, as sampled by the endpoint's `log_share`."""

    project: Name
    endpoint: EndpointName
    limit: Limit = 100
    cursor: Cursor = ""


@value
class LoggedCall(Message):
    """`inputs` and `outputs` are JSON, without the columns that are masked, or that a dataset which the model was made from
    keeps from the reader. `drawn` says that the split chose the revision, and not the caller."""

    id: str
    at: Moment
    revision: RevisionNumber
    caller: str
    status: str
    ms: float
    inputs: str
    outputs: str
    drawn: bool = True


@value
class LoggedCalls(Message):
    items: tuple[LoggedCall, ...]
    next: str = ""


READ: Final = Permission(name="endpoint.read", group=Group.READ)
DEPLOY: Final = Permission(name="endpoint.deploy", group=Group.DEPLOY)
_ROLL_BACK: Final = Permission(name="endpoint.roll-back", group=Group.DEPLOY)
_READ_LOGS: Final = Permission(name="endpoint.read-logs", group=Group.WRITE)

DEPLOY_REVISION: Final = Operation(
    name="endpoint.deploy",
    summary="Serve a model version behind a name, at once or beside what is there.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/revisions",
    request=Deploy,
    result=Deployment,
    permission=DEPLOY,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_ENDPOINTS: Final = Operation(
    name="endpoint.list",
    summary="List a project's endpoints.",
    method="GET",
    path="projects/{project}/endpoints",
    request=ListEndpoints,
    result=Endpoints,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_ENDPOINT: Final = Operation(
    name="endpoint.show",
    summary="Show an endpoint: what answers, who gets what, how it is.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}",
    request=OneEndpoint,
    result=Endpoint,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SPLIT_TRAFFIC: Final = Operation(
    name="endpoint.split",
    summary="Say which revision gets which share.",
    method="PUT",
    path="projects/{project}/endpoints/{endpoint}/split",
    request=Split,
    result=Endpoint,
    permission=DEPLOY,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PROMOTE_REVISION: Final = Operation(
    name="endpoint.promote",
    summary="Give all traffic to one revision.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/promote",
    request=PromoteRevision,
    result=Endpoint,
    permission=DEPLOY,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ROLL_BACK: Final = Operation(
    name="endpoint.rollback",
    summary="Go back to the split before the present one, at once.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/rollback",
    request=RollBack,
    result=Endpoint,
    permission=_ROLL_BACK,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
CONFIGURE: Final = Operation(
    name="endpoint.configure",
    summary="Set how an endpoint answers: latency objective, limits, logging, idling.",
    method="PUT",
    path="projects/{project}/endpoints/{endpoint}/options",
    request=Configure,
    result=Endpoint,
    permission=DEPLOY,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_ENDPOINT: Final = Operation(
    name="endpoint.delete",
    summary="Stop answering under a name. Its history stays in the ledger.",
    method="DELETE",
    path="projects/{project}/endpoints/{endpoint}",
    request=OneEndpoint,
    result=Nothing,
    permission=DEPLOY,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
READ_CHANGES: Final = Operation(
    name="endpoint.history",
    summary="Every change of an endpoint's split: who, when and why.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/history",
    request=ReadChanges,
    result=Changes,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_REVISIONS: Final = Operation(
    name="endpoint.revisions",
    summary="Every revision an endpoint ever had.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/revisions",
    request=ReadRevisions,
    result=Revisions,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_TRAFFIC: Final = Operation(
    name="endpoint.traffic",
    summary="Rate, latencies, errors and batches of late.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/traffic",
    request=ReadTraffic,
    result=Traffic,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_LOGS: Final = Operation(
    name="endpoint.logs",
    summary="Read sampled calls with their inputs and answers.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/logs",
    request=ReadLogs,
    result=LoggedCalls,
    permission=_READ_LOGS,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
OPERATIONS: Final = (
    DEPLOY_REVISION,
    LIST_ENDPOINTS,
    SHOW_ENDPOINT,
    SPLIT_TRAFFIC,
    PROMOTE_REVISION,
    ROLL_BACK,
    CONFIGURE,
    DELETE_ENDPOINT,
    READ_CHANGES,
    READ_REVISIONS,
    READ_TRAFFIC,
    READ_LOGS,
)
