"""Optimising a registered version: decided and pinned here, done by a job of the platform's own program, step by step."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Download, Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Number, Range, Text, value
from falaj.datasets.operations.words import ColumnName, DatasetRef, DatasetRefOrNone
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import (
    MOST_CANDIDATES,
    OPTIMISE,
    SEE,
    DataSeen,
    FileSeen,
    Host,
    Measures,
    Sentence,
    Sentences,
    Steps,
    Target,
    TaskKind,
    VariantName,
    Word,
)
from falaj.registry.operations.words import AliasNameOrNone, ModelName, ModelNameOrNone

VersionNumberOrNone = Annotated[int, Range(least=0, most=2**31 - 1)]
Share = Annotated[float, Range(least=0, most=1)]
ColumnNameOrNone = Annotated[str, Text(longest=500)]


@value
class Limits(Message):
    """What a variant must keep to be certified.

    `max_drop` is how much worse it may be over all, `max_slice_drop` in any slice: shares of rows that are answered rightly
    (0.005 is half a point), or of the mean error where the model answers with numbers. `latency_ms` bounds 99 of 100 answers
    to a single row; 0 for no bound. `confidence` is how sure that has to be.
    """

    max_drop: Share = 0.005
    max_slice_drop: Share = 0.02
    latency_ms: Annotated[float, Range(least=0, most=3_600_000)] = 0.0
    confidence: Annotated[float, Range(least=0, most=1)] = 0.95


@value
class PlanOptimisation(Message):
    """A search for the smallest and fastest form of a version that is as good, for a kind of machine.

    The version is named as for a deployment. `on` is learnt from and calibrated with; variants are judged on `held_out`, or,
    where none is named, on three tenths of the rows of `on`, which nothing else uses. `label` is the column with what the model
    should say; without one, what the original says is held to be true. `slices` are columns whose values are judged apart.
    `only` are steps that candidates are made of, where not all that suit are wanted. `student` is a version of a model that is
    to be taught what this one knows. `seconds` is what the whole search may take.
    """

    project: Name
    model: ModelName
    version: VersionNumberOrNone = 0
    alias: AliasNameOrNone = ""
    on: DatasetRef
    held_out: DatasetRefOrNone = ""
    label: ColumnNameOrNone = ""
    slices: Annotated[tuple[ColumnName, ...], Items(most=20)] = ()
    target: Target = "cpu"
    limits: Limits = Limits()
    only: Steps = ()
    student: ModelNameOrNone = ""
    student_version: VersionNumberOrNone = 0
    certify: Annotated[int, Range(least=0, most=20)] = 3
    seconds: Annotated[int, Range(least=10, most=7 * 86_400)] = 900


@value
class ColumnTaken(Message):
    """A column of the model's signature."""

    name: str
    type: str = ""
    required: bool = True


@value
class Profile(Message):
    """What the job found the model to be: of which family, how large, of which operators, by which opset."""

    family: Word
    parameters: Annotated[int, Range(least=0, most=2**53)]
    opset: Annotated[int, Range(least=0, most=1000)]
    operators: Annotated[tuple[Sentence, ...], Items(most=200)]


@value
class Optimisation(Message):
    """`state` is open until its job has done all it wanted, and `done` then, or until it is `abandoned`. `files` are the
    original's, as they are served. `permissions` are what the token of its job needs. `price` is of an hour of a core and
    `gpu_price` of a GPU. What the job told is empty until it did. `spent` are the seconds that tries of its jobs took that are
    over: they count towards `seconds`, and waiting does not. `refused_before` counts the variants of the version that were
    refused on the same rows by now."""

    id: Id
    model: ModelName
    version: int
    version_id: Id
    on: DataSeen
    held_out: DataSeen
    label: str
    slices: tuple[str, ...]
    target: Target
    limits: Limits
    only: tuple[str, ...]
    certify: int
    seconds: int
    runtime: str
    file: str
    columns: tuple[ColumnTaken, ...]
    files: tuple[FileSeen, ...]
    student: tuple[FileSeen, ...]
    student_file: str
    price: Number
    permissions: tuple[str, ...]
    spent: Number
    state: str
    created: Moment
    created_by: Id
    ended: Moment | None
    host: Host | None = None
    profile: Profile | None = None
    baseline: Measures | None = None
    task: TaskKind = "classes"
    rows: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    gpu_price: Number = 0.0
    refused_before: int = 0


@value
class OneOptimisation(Message):
    project: Name
    optimisation: Id


@value
class ListOptimisations(Message):
    """Newest first; of one model where it is named."""

    project: Name
    model: ModelNameOrNone = ""
    cursor: Cursor = ""
    limit: Limit = 50


@value
class Optimisations(Message):
    items: tuple[Optimisation, ...]
    next: str


@value
class ReadOptimisationFile(Message):
    """A file of the original, or of the student."""

    project: Name
    optimisation: Id
    file: Annotated[str, Text(shortest=1, longest=1000)]
    student: bool = False


@value
class Proposed(Message):
    """A candidate; `skipped` says why it is not made."""

    name: VariantName
    steps: Steps
    why: Sentence
    skipped: Sentence = ""


@value
class Describe(Message):
    """What the job found before it makes anything: the host, the model, how many rows are learnt from, compared on and held
    out, and the candidates in the order they are made in. Said again, what is there stays."""

    project: Name
    optimisation: Id
    job: Id
    host: Host
    profile: Profile
    baseline: Measures
    task: TaskKind
    rows: Annotated[tuple[Annotated[int, Range(least=0, most=2**53)], ...], Items(least=3, most=3)]
    remarks: Sentences = ()
    candidates: Annotated[tuple[Proposed, ...], Items(most=MOST_CANDIDATES)]


@value
class Finish(Message):
    project: Name
    optimisation: Id
    job: Id
    remarks: Sentences = ()


PLAN_OPTIMISATION: Final = Operation(
    name="optimisation.plan",
    summary="Decide what is to be optimised, on which data and for what, for a job to do.",
    method="POST",
    path="projects/{project}/optimisations",
    request=PlanOptimisation,
    result=Optimisation,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_OPTIMISATION: Final = Operation(
    name="optimisation.show",
    summary="Show an optimisation: what was tried, what came out.",
    method="GET",
    path="projects/{project}/optimisations/{optimisation}",
    request=OneOptimisation,
    result=Optimisation,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_OPTIMISATIONS: Final = Operation(
    name="optimisation.list",
    summary="List optimisations, newest first.",
    method="GET",
    path="projects/{project}/optimisations",
    request=ListOptimisations,
    result=Optimisations,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_OPTIMISATION_FILE: Final = Operation(
    name="optimisation.file",
    summary="Fetch a file of the model that is optimised, for the job.",
    method="GET",
    path="projects/{project}/optimisations/{optimisation}/file",
    request=ReadOptimisationFile,
    result=Download,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
DESCRIBE_OPTIMISATION: Final = Operation(
    name="optimisation.describe",
    summary="The job tells what it found and what it is going to try.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/description",
    request=Describe,
    result=Optimisation,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
FINISH_OPTIMISATION: Final = Operation(
    name="optimisation.finish",
    summary="The job has done all it wanted.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/finish",
    request=Finish,
    result=Optimisation,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ABANDON_OPTIMISATION: Final = Operation(
    name="optimisation.abandon",
    summary="Give an open optimisation up: what is not made by now never is; what was certified stays.",
    method="POST",
    path="projects/{project}/optimisations/{optimisation}/abandon",
    request=OneOptimisation,
    result=Optimisation,
    permission=OPTIMISE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    PLAN_OPTIMISATION,
    SHOW_OPTIMISATION,
    LIST_OPTIMISATIONS,
    READ_OPTIMISATION_FILE,
    DESCRIBE_OPTIMISATION,
    FINISH_OPTIMISATION,
    ABANDON_OPTIMISATION,
)
