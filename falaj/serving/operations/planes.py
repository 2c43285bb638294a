"""What serving planes ask of the control plane, and how one is let in.

A plane is a service of its own, in one zone. It alone gets the signed state and the models of that zone's endpoints.
"""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Nothing, Number, Personal, Range, Secret, Text, value
from falaj.serving.operations.loads import Count, PlaneLoad
from falaj.serving.operations.words import RevisionNumber

Serial = Annotated[int, Range(least=0, most=2**62)]
WatchedName = Annotated[str, Text(longest=300)]
Address = Annotated[str, Text(longest=500)]
PlaneSecret = Annotated[str, Text(longest=500), Secret()]


@value
class CreatePlane(Message):
    plane: Name
    zone: Name
    days: Annotated[int, Range(least=1, most=366)] = 90


@value
class Plane(Message):
    """`heard` is when it last reported, `load` what it had to do then. `url` is where it answers, REST and gRPC alike."""

    name: Name
    zone: str
    url: Address
    version: str
    workers: int
    serial: int
    problems: tuple[str, ...]
    created: Moment
    heard: Moment | None
    load: PlaneLoad | None = None


@value
class TrustedKey(Message):
    id: str
    public: str  # hex


@value
class NewPlane(Message):
    """What `falaj serve --join` wants, once: its token, and the keys that the state is signed with."""

    plane: Plane
    token: PlaneSecret
    expires: Moment
    keys: tuple[TrustedKey, ...]


@value
class RenewToken(Message):
    """Asked by a plane about itself."""


@value
class PlaneToken(Message):
    token: PlaneSecret
    expires: Moment


@value
class RetireTokens(Message):
    """Asked with the token that stays, once that is written down."""


@value
class OnePlane(Message):
    plane: Name


@value
class ListPlanes(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Planes(Message):
    items: tuple[Plane, ...]
    next: str = ""


@value
class ReadState(Message):
    """`after` is the serial of the state the plane has; where that is still the newest, the answer is empty."""

    after: Serial = 0


@value
class Endorsed(Message):
    """A signing key that the one before it handed over to."""

    key: str
    public: str
    by: str
    signature: str


@value
class SignedState(Message):
    """`body` is the state as JSON, exactly as it was signed. See `falaj.serving.states`."""

    serial: Serial
    body: str = ""
    key: str = ""
    signature: str = ""
    endorsements: tuple[Endorsed, ...] = ()


@value
class FetchFile(Message):
    """A file of a revision that the plane's own state names."""

    revision: Id
    file: Annotated[str, Text(shortest=1, longest=1000)]


@value
class Latency(Message):
    """Milliseconds of a single row: the median, and what 99 of 100 keep to, each with what it lies between at 95 %."""

    p50_ms: Number
    p50_low: Number
    p50_high: Number
    p99_ms: Number
    p99_low: Number
    p99_high: Number


@value
class RungReport(Message):
    """What one form of a revision did since the last report: its own, or a variant of its ladder. `falls` counts how often a
    worker fell to it, `workers` those that answer by it now. `latency` was measured here when it was loaded, where it was
    certified on a host of another kind; `remark` says why it is not used."""

    name: Annotated[str, Text(longest=100)]
    requests: Count = 0
    falls: Count = 0
    workers: Count = 0
    latency: Latency | None = None
    remark: Annotated[str, Text(longest=2000)] = ""


@value
class PinnedReport(Message):
    """What a revision did for callers who chose it; counts are as those of `RevisionReport`."""

    requests: Count = 0
    errors: Count = 0
    shed: Count = 0
    rows: Count = 0
    batches: Count = 0
    compared: Count = 0
    differed: Count = 0
    aside: Count = 0
    unlogged: Count = 0
    latencies: Annotated[tuple[Count, ...], Items(most=200)] = ()


@value
class RevisionReport(Message):
    """What one revision did since the last report, for the calls that the split gave it: by these it is judged. `pinned` is
    what it did besides, for callers who chose it; there is none where nobody did. `latencies` counts calls by the buckets of
    `falaj.serving.latencies`, `aside` those that were given to a second place of the host, because the first was behind,
    `unlogged` those that were to be logged and had no room. `rungs` are the forms that it can answer in, its own first, where
    it has a ladder or is a variant."""

    endpoint: Id
    revision: RevisionNumber
    ready: bool
    problem: Annotated[str, Text(longest=2000)] = ""
    quarantined: bool = False
    requests: Count = 0
    errors: Count = 0
    shed: Count = 0
    rows: Count = 0
    batches: Count = 0
    compared: Count = 0
    differed: Count = 0
    aside: Count = 0
    unlogged: Count = 0
    latencies: Annotated[tuple[Count, ...], Items(most=200)] = ()
    cold_start_ms: Number = 0.0
    batch_size: Count = 0
    rungs: Annotated[tuple[RungReport, ...], Items(most=20)] = ()
    pinned: PinnedReport | None = None


@value
class CallReport(Message):
    """A sampled call. `inputs` and `outputs` are JSON, masked by the plane, and so is `looked`: what was looked up for it.
    `drawn` says that the split chose the revision, and not the caller."""

    endpoint: Id
    revision: RevisionNumber
    id: Annotated[str, Text(longest=200)]
    at: Moment
    caller: Annotated[str, Text(longest=200)]
    status: Annotated[str, Text(longest=100)]
    ms: Number
    inputs: Annotated[str, Text(longest=20_000), Personal()]
    outputs: Annotated[str, Text(longest=20_000), Personal()]
    looked: Annotated[str, Text(longest=20_000), Personal()] = ""
    drawn: bool = True


@value
class ColumnReport(Message):
    """`counts` are by the bins of the plan (see `falaj.serving.states`); empty for none, as while the column is learnt. `total`
    and `squares` are sums over its finite numbers, of which there are so many."""

    name: WatchedName
    output: bool = False
    counts: Annotated[tuple[Count, ...], Items(most=1000)] = ()
    finite: Count = 0
    total: Number = 0.0
    squares: Number = 0.0


@value
class SketchReport(Message):
    """The sketches of one column, in base64: see `falaj.tables.window_sketches`."""

    name: WatchedName
    output: bool = False
    sketch: Annotated[str, Text(longest=20_000), Personal()]


@value
class SampledRow(Message):
    """A row as JSON: a list, in the order of the report's columns. Who has several samples of one window keeps the rows with
    the least `draw`, which is a random number below 1: that is a sample of them all."""

    draw: Number
    row: Annotated[str, Text(longest=20_000), Personal()]


@value
class WatchReport(Message):
    """What was seen of one revision in a window, or in part of one: whatever is told of a window adds up, in any order. `plan`
    is the key of what it was counted by, `at` the beginning of the window. `missed` rows were answered and not counted. Inputs
    go before outputs among the columns; where rows were sampled all are there, in the same order each time."""

    endpoint: Id
    revision: RevisionNumber
    plan: Annotated[str, Text(longest=100)]
    at: Moment
    seconds: Annotated[int, Range(least=1, most=366 * 86_400)]
    rows: Count = 0
    missed: Count = 0
    columns: Annotated[tuple[ColumnReport, ...], Items(most=1100)] = ()
    sketches: Annotated[tuple[SketchReport, ...], Items(most=1100)] = ()
    sampled: Annotated[tuple[SampledRow, ...], Items(most=10_000)] = ()


@value
class Report(Message):
    """`number` rises by one with each report of a plane's run: one that was sent twice counts once. `certificate` (PEM) is what
    it shows to callers, empty without TLS."""

    run: Id
    number: Serial
    url: Address
    certificate: Annotated[str, Text(longest=20_000)] = ""
    version: Annotated[str, Text(longest=100)]
    workers: Count
    serial: Serial
    seconds: Annotated[float, Range(least=0, most=366 * 86_400)]
    revisions: Annotated[tuple[RevisionReport, ...], Items(most=10_000)] = ()
    calls: Annotated[tuple[CallReport, ...], Items(most=1000)] = ()
    watched: Annotated[tuple[WatchReport, ...], Items(most=10_000)] = ()
    problems: Annotated[tuple[Annotated[str, Text(longest=2000)], ...], Items(most=100)] = ()
    load: PlaneLoad = PlaneLoad()


_ADMINISTER: Final = Permission(name="plane.administer", group=Group.ADMINISTER)
_READ: Final = Permission(name="plane.read", group=Group.OPERATE)
SERVE: Final = Permission(name="plane.serve", group=Group.OPERATE)

CREATE_PLANE: Final = Operation(
    name="plane.create",
    summary="Let a host in that will serve predictions in one zone.",
    method="POST",
    path="planes",
    request=CreatePlane,
    result=NewPlane,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PLANES: Final = Operation(
    name="plane.list",
    summary="List serving planes.",
    method="GET",
    path="planes",
    request=ListPlanes,
    result=Planes,
    permission=_READ,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
DELETE_PLANE: Final = Operation(
    name="plane.delete",
    summary="Shut a plane out. What it holds goes on answering until its host is stopped.",
    method="DELETE",
    path="planes/{plane}",
    request=OnePlane,
    result=Nothing,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
READ_STATE: Final = Operation(
    name="plane.state",
    summary="The signed state of the asking plane's zone.",
    method="GET",
    path="plane/state",
    request=ReadState,
    result=SignedState,
    permission=SERVE,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
FETCH_FILE: Final = Operation(
    name="plane.fetch",
    summary="Fetch a file of a revision that the asking plane serves.",
    method="GET",
    path="plane/file",
    request=FetchFile,
    result=Download,
    permission=SERVE,
    scope=Scope.PLATFORM,
    record=Record.SENSITIVE_READ,
)
SEND_REPORT: Final = Operation(
    name="plane.report",
    summary="Say how the asking plane is and what it did.",
    method="POST",
    path="plane/reports",
    request=Report,
    result=Nothing,
    permission=SERVE,
    scope=Scope.PLATFORM,
    record=Record.TELEMETRY,
)
RENEW_TOKEN: Final = Operation(
    name="plane.renew",
    summary="A new token for the asking plane, good for as long as its present one was. That one stays good.",
    method="POST",
    path="plane/token",
    request=RenewToken,
    result=PlaneToken,
    permission=SERVE,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
RETIRE_TOKENS: Final = Operation(
    name="plane.retire-tokens",
    summary="End every token of the asking plane but the one it asks with.",
    method="DELETE",
    path="plane/tokens",
    request=RetireTokens,
    result=Nothing,
    permission=SERVE,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_PLANE,
    LIST_PLANES,
    DELETE_PLANE,
    READ_STATE,
    FETCH_FILE,
    SEND_REPORT,
    RENEW_TOKEN,
    RETIRE_TOKENS,
)
