"""Gates: what a version has to show before it is promoted, as an operator defines it, and runs of them.

What is measured is told by the platform's own program and by nobody else; how a command of the user's ended is what its engine
saw; all the rest the platform looks up. Whether that is enough is decided here, and kept as evidence in the registry.
"""

from typing import Annotated, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Items, Message, Name, Number, Range, Text, value
from falaj.datasets.operations.words import ColumnName, DatasetRefOrNone
from falaj.jobs.operations.words import HostPort
from falaj.optimisation.operations.optimisations import Share, VersionNumberOrNone
from falaj.optimisation.operations.variants import Group as Counted
from falaj.optimisation.operations.words import MOST_GROUPS, DataSeen, FileSeen, Host, Measures, TaskKind
from falaj.registry.operations.promotions import Person
from falaj.registry.operations.words import AliasName, AliasNameOrNone, ModelName, ModelNameOrNone

MOST_GATES: Final = 100
GateKind: TypeAlias = Literal[
    "signature", "certificate", "data", "cost", "licences", "vulnerabilities", "quality", "latency", "fairness", "leakage",
    "tests", "static", "command",
]  # fmt: skip
LOOKED_UP: Final = ("signature", "certificate", "data", "cost", "licences", "vulnerabilities")
MEASURED: Final = ("quality", "latency", "fairness", "leakage")
COMMANDS: Final = ("tests", "static", "command")
RunState: TypeAlias = Literal["running", "passed", "failed", "void"]
Figure: TypeAlias = Literal["selected", "recognised", "right"]
PackageFact: TypeAlias = Literal["advisory", "licence"]
Sentence = Annotated[str, Text(longest=2000)]
Word = Annotated[str, Text(longest=500)]
Words = Annotated[tuple[Word, ...], Items(most=1000)]
Amount = Annotated[float, Range(least=0, most=10**12)]
Count = Annotated[int, Range(least=0, most=2**53)]
ColumnNameOrNone = Annotated[str, Text(longest=500)]
SourceDigest = Annotated[str, Text(pattern=r"^([0-9a-f]{64})?$", longest=64, says="must be the digest of an uploaded source")]


@value
class Gate(Message):
    """A gate, by its kind; what a kind does not speak of is left out.

    Looked up by the platform:
    - `signature`: the project signed exactly these files, and every byte is there and unchanged.
    - `certificate`: a variant has a certificate that holds, and allows at most `max_drop` to be lost.
    - `data`: every dataset that the version came from has checks, and passed them without being released in spite of them.
    - `cost`: the jobs that trained it cost at most `budget`, in the platform's currency.
    - `licences`: every package it needs has one of these `licences`, by SPDX or by name.
    - `vulnerabilities`: no package it needs has a known one, but for those to `ignore`; what is known is at most `days` old.

    Measured by the platform's own program in a job:
    - `quality`: on the rows of `on`, held against their `label`, it is not worse than the version that `against` points at, by
      more than `max_drop` over all and `max_slice_drop` in any slice of the columns in `slices`, with this `confidence`; and at
      least the share `least` is right, or the mean error at most `most`, where they are given. Where the alias points at
      nothing, it has to be better than always saying the same.
    - `latency`: 99 of 100 answers to a row of `on` take at most `p99_ms`; a million predictions cost at most `budget`.
    - `fairness`: between any two groups of each column in `groups`, the `figures` are at most `max_gap` apart: of how many are
      `selected` (predicted `positive`), of how many of those that are so are `recognised`, and of how many answers are `right`.
    - `leakage`: nothing of the rows of `on` is among those it was trained on: those of `training`, or, where that is left out,
      of all datasets that it came from. `keys` are columns whose values may stand on one side only.

    Run for you, and judged by how they end:
    - `tests`: `command`, or pytest, on the source that is given. `static`: bandit on the source that it was trained with.
      `command`: the command that you say, on the source that is given. `lock`, `image` and `hosts` are as a job has them.
    """

    name: Name
    kind: GateKind
    words: Sentence = ""
    on: DatasetRefOrNone = ""
    label: ColumnNameOrNone = ""
    slices: Annotated[tuple[ColumnName, ...], Items(most=20)] = ()
    against: AliasNameOrNone = ""
    max_drop: Share = 0.0
    max_slice_drop: Share = 0.0
    confidence: Share = 0.0
    least: Share = 0.0
    most: Amount = 0.0
    p99_ms: Amount = 0.0
    budget: Amount = 0.0
    groups: Annotated[tuple[ColumnName, ...], Items(most=20)] = ()
    figures: Annotated[tuple[Figure, ...], Items(most=3)] = ()
    positive: Word = ""
    max_gap: Share = 0.0
    training: DatasetRefOrNone = ""
    keys: Annotated[tuple[ColumnName, ...], Items(most=20)] = ()
    licences: Words = ()
    ignore: Words = ()
    days: Annotated[int, Range(least=0, most=3660)] = 0
    command: Annotated[tuple[Annotated[str, Text(longest=10_000)], ...], Items(most=100)] = ()
    lock: Annotated[str, Text(longest=200_000)] = ""
    image: Word = ""
    hosts: Annotated[tuple[HostPort, ...], Items(most=50)] = ()
    cpus: Annotated[float, Range(least=0, most=1024)] = 1.0
    memory_mib: Annotated[int, Range(least=64, most=2**24)] = 2048
    seconds: Annotated[int, Range(least=1, most=7 * 86_400)] = 1800


@value
class Requirement(Message):
    """The gates without which no version of a model, of every model where none is named, gets an alias or a stage."""

    model: ModelNameOrNone = ""
    alias: AliasName
    gates: Annotated[tuple[Name, ...], Items(most=MOST_GATES)]


@value
class ApplyGates(Message):
    """All gates of the project, and what is required where: what is not named any more is gone. A gate that is not changed
    keeps the evidence it has."""

    project: Name
    gates: Annotated[tuple[Gate, ...], Items(most=MOST_GATES)]
    require: Annotated[tuple[Requirement, ...], Items(most=1000)] = ()


@value
class Defined(Message):
    """A gate as it is now. `digest` is of what it is: only evidence with the same counts."""

    gate: Gate
    digest: str
    changed: Moment
    changed_by: Person


@value
class ListGates(Message):
    project: Name


@value
class Gates(Message):
    items: tuple[Defined, ...]
    require: tuple[Requirement, ...] = ()


@value
class OneGate(Message):
    project: Name
    gate: Name


@value
class Require(Message):
    """Instead of those that were required for this alias of this model; none lets it free."""

    project: Name
    model: ModelNameOrNone = ""
    alias: AliasName
    gates: Annotated[tuple[Name, ...], Items(most=MOST_GATES)] = ()


@value
class RunGates(Message):
    """Some gates of a version, or all that are defined. `source` is the digest of the files that commands are run on."""

    project: Name
    model: ModelName
    version: VersionNumberOrNone = 0
    alias: AliasNameOrNone = ""
    gates: Annotated[tuple[Name, ...], Items(most=MOST_GATES)] = ()
    source: SourceDigest = ""


@value
class GateRun(Message):
    """A gate that is run for a version. `evidence` is what it left once it is over; `void` is one whose version was deleted
    meanwhile."""

    id: Id
    batch: Id
    model: ModelName
    version: int
    gate: Name
    kind: GateKind
    state: RunState
    words: str
    against_alias: str
    against: int
    job: str
    evidence: str
    created: Moment
    created_by: Person
    ended: Moment | None


@value
class GateRuns(Message):
    """Those of one call have one `batch`. `over`: none is under way any more. `passed`: there are some, and each is passed.
    `words`: what those found that failed, and where their jobs wrote it."""

    model: ModelName
    version: int
    batch: str
    over: bool
    passed: bool
    items: tuple[GateRun, ...]
    words: str = ""


@value
class ReadResults(Message):
    """Of what was asked for at once, or the last run of each gate of a version."""

    project: Name
    model: ModelName
    version: VersionNumberOrNone = 0
    alias: AliasNameOrNone = ""
    batch: Annotated[str, Text(pattern=r"^([0-9a-f]{32})?$", longest=32)] = ""


@value
class OneRun(Message):
    project: Name
    run: Id


@value
class FormTaken(Message):
    """A version as its runtime takes it."""

    model: str
    version: int
    runtime: str
    file: str
    files: tuple[FileSeen, ...]
    columns: tuple[str, ...]


@value
class Task(Message):
    """What the job of a run has to measure. `columns` are what the version takes, where its signature names them; `masked` are
    columns whose values it must not tell; `price` is of a core's hour."""

    run: Id
    gate: Gate
    candidate: FormTaken | None
    incumbent: FormTaken | None
    on: DataSeen
    training: tuple[DataSeen, ...]
    columns: tuple[str, ...]
    masked: tuple[str, ...]
    price: Number
    state: RunState


@value
class ReadGateFile(Message):
    """A file of the version, or of the one it is held against."""

    project: Name
    run: Id
    file: Annotated[str, Text(shortest=1, longest=1000)]
    incumbent: bool = False


@value
class GroupCount(Message):
    """Of one group of rows: so many hits of a figure among so many rows."""

    column: Word
    group: Word
    figure: Figure
    hits: Count
    rows: Count


@value
class Sighting(Message):
    """What a check of leakage found."""

    check: Word
    severity: Literal["fine", "note", "warning", "problem"]
    sentence: Sentence


@value
class Told(Message):
    """What the program saw. `counted` are rows of both versions by slice, as certificates have them, where the original is the
    one it is held against, or whoever always says the same. `problem` says why it could not be measured."""

    problem: Sentence = ""
    task: TaskKind = "classes"
    rows: Count = 0
    counted: Annotated[tuple[Counted, ...], Items(most=MOST_GROUPS)] = ()
    groups: Annotated[tuple[GroupCount, ...], Items(most=3000)] = ()
    measures: Measures | None = None
    host: Host | None = None
    sightings: Annotated[tuple[Sighting, ...], Items(most=1000)] = ()
    training_rows: Count = 0
    read_as: Sentence = ""


@value
class TellGate(Message):
    project: Name
    run: Id
    job: Id
    told: Told


@value
class KnowPackages(Message):
    """A file of advisories (OSV or pip-audit, as JSON), or of licences (pip-licenses or CycloneDX, as JSON)."""

    project: Name
    about: PackageFact


@value
class PackagesKnown(Message):
    about: PackageFact
    packages: int
    digest: str
    at: Moment


READ: Final = Permission(name="gate.read", group=Group.READ)
DEFINE: Final = Permission(name="gate.define", group=Group.OPERATE)
RUN: Final = Permission(name="gate.run", group=Group.WRITE)
TELL: Final = Permission(name="gate.tell", group=Group.WRITE)

APPLY_GATES: Final = Operation(
    name="gate.apply",
    summary="Define all gates of a project, and which are required for which alias.",
    method="PUT",
    path="projects/{project}/gates",
    request=ApplyGates,
    result=Gates,
    permission=DEFINE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_GATES: Final = Operation(
    name="gate.list",
    summary="List the gates of a project, and what is required where.",
    method="GET",
    path="projects/{project}/gates",
    request=ListGates,
    result=Gates,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_GATE: Final = Operation(
    name="gate.show",
    summary="Show a gate as it is defined now.",
    method="GET",
    path="projects/{project}/gates/{gate}",
    request=OneGate,
    result=Defined,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
REQUIRE_GATES: Final = Operation(
    name="gate.require",
    summary="Say which gates a version must have passed to get an alias or a stage.",
    method="PUT",
    path="projects/{project}/gate-requirements",
    request=Require,
    result=Gates,
    permission=DEFINE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RUN_GATES: Final = Operation(
    name="gate.run",
    summary="Run gates of a version: what is to be looked up is at once, the rest by jobs.",
    method="POST",
    path="projects/{project}/gate-runs",
    request=RunGates,
    result=GateRuns,
    permission=RUN,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
READ_RESULTS: Final = Operation(
    name="gate.results",
    summary="How gates of a version went, or how far they are.",
    method="GET",
    path="projects/{project}/gate-results",
    request=ReadResults,
    result=GateRuns,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_TASK: Final = Operation(
    name="gate.task",
    summary="What the job of a gate has to measure.",
    method="GET",
    path="projects/{project}/gate-runs/{run}",
    request=OneRun,
    result=Task,
    permission=TELL,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_GATE_FILE: Final = Operation(
    name="gate.file",
    summary="Fetch a file of the version that is measured, for the job.",
    method="GET",
    path="projects/{project}/gate-runs/{run}/file",
    request=ReadGateFile,
    result=Download,
    permission=TELL,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
TELL_GATE: Final = Operation(
    name="gate.tell",
    summary="The job of a gate tells what it measured.",
    method="POST",
    path="projects/{project}/gate-runs/{run}/figures",
    request=TellGate,
    result=GateRun,
    permission=TELL,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
KNOW_PACKAGES: Final = Operation(
    name="gate.know",
    summary="Tell what is known of packages: advisories or licences, instead of what was told before.",
    method="POST",
    path="projects/{project}/gate-packages/{about}",
    request=KnowPackages,
    result=PackagesKnown,
    permission=DEFINE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
    takes_bytes=True,
)

OPERATIONS: Final = (
    APPLY_GATES,
    LIST_GATES,
    SHOW_GATE,
    REQUIRE_GATES,
    RUN_GATES,
    READ_RESULTS,
    READ_TASK,
    READ_GATE_FILE,
    TELL_GATE,
    KNOW_PACKAGES,
)
