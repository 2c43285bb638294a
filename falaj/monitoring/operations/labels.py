"""Labels: what became of predictions, as it comes to be known; and how good the predictions were."""

from typing import Annotated, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Items, Message, Name, Number, Personal, Range, Text, value
from falaj.monitoring.operations.words import SEE, ColumnName, Sentence
from falaj.serving.operations.words import EndpointName, RevisionNumber, RevisionNumberOrNone

MOST_LABELS: Final = 1000
MOST_VALUES: Final = 50  # of a label
MOST_VALUE_NAMES: Final = 100  # of an endpoint
MOST_NAMED: Final = 20
Span: TypeAlias = Literal["hour", "day", "whole"]
Words = Annotated[str, Text(longest=500)]
ValueName = Annotated[
    str,
    Text(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_ .-]{0,99}$",
        longest=100,
        says="must be a value's name: letters, digits, spaces, dots and dashes",
    ),
]
Whole = Annotated[int, Range(least=-(2**53), most=2**53)]
Finite = Annotated[float, Range(least=-(10**300), most=10**300)]


@value
class Label(Message):
    """What became of one prediction: its `truth`, and numbers that matter to the business as `values`, such as what a customer
    spent.

    The prediction is named by its `id`, and by `row` where one call asked for several; or by the `entity` it was made for, its
    keys by name as they were sent: then it is the last one made for it before the moment `at`, but no more than the request's
    `within` before. `unit` is who was served: in an A/B test, rows of one unit count as one. Left out, it is the entity, or the
    call.
    """

    id: Annotated[str, Text(longest=200)] = ""
    row: Annotated[int, Range(least=0, most=1_000_000)] = 0
    entity: dict[Words, Words] | None = None
    at: Moment | None = None
    truth: Whole | Finite | Words | None = None
    values: dict[ValueName, Finite] | None = None
    unit: Words = ""


@value
class AddLabels(Message):
    """What was said before is passed over; what contradicts it is refused, label by label. `within` is in seconds."""

    project: Name
    endpoint: EndpointName
    labels: Annotated[tuple[Label, ...], Items(least=1, most=MOST_LABELS), Personal()]
    within: Annotated[int, Range(least=1, most=366 * 86_400)] = 86_400


@value
class Added(Message):
    """How many labels were `taken`, were there already (`repeated`), say something else than was said before (`refused`), and
    are of predictions that nobody logged (`unknown`). Those that were not taken are named, the first of each, by their place in
    the request, counted from 0."""

    taken: int
    repeated: int
    refused: int
    unknown: int
    refused_at: tuple[int, ...] = ()
    unknown_at: tuple[int, ...] = ()
    remarks: tuple[Sentence, ...] = ()


@value
class ReadQuality(Message):
    """Of predictions whose truth came to be known: made in the last `days`, by `revision` or by all of them, in spans of time.
    `slices` are columns of the inputs that say which group a row belongs to, and `positive` the answer that matters there."""

    project: Name
    endpoint: EndpointName
    revision: RevisionNumberOrNone = 0
    span: Span = "day"
    days: Annotated[int, Range(least=1, most=366)] = 30
    slices: Annotated[tuple[ColumnName, ...], Items(most=5)] = ()
    positive: Words = ""


@value
class Figure(Message):
    """`at` is the figure, which lies between `low` and `high` in 19 of 20 cases."""

    name: str
    at: Number
    low: Number
    high: Number
    rows: int


@value
class Gap(Message):
    """By how much more often the group `highest` of a slice is selected, recognised or predicted rightly than `lowest`; of
    numbers, by how much larger its errors are."""

    slice: str
    figure: str
    lowest: str
    highest: str
    difference: Figure
    left_out: tuple[str, ...] = ()


@value
class Bucket(Message):
    """Predictions that `revision` made from `at` on, for the span. `kind` is `classes` or `numbers`, empty where no truth is
    known."""

    revision: RevisionNumber
    at: Moment
    rows: int
    kind: str
    figures: tuple[Figure, ...]
    gaps: tuple[Gap, ...] = ()


@value
class Quality(Message):
    """The newest first. `labels` are counted since the first came; `left_out` rows are older than what is looked at."""

    items: tuple[Bucket, ...]
    labels: int
    unknown: int
    left_out: int
    remarks: tuple[Sentence, ...] = ()


ADD_LABELS: Final = Operation(
    name="label.add",
    summary="Say what became of predictions.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/labels",
    request=AddLabels,
    result=Added,
    permission=Permission(name="label.write", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
    subject="endpoint",
)
READ_QUALITY: Final = Operation(
    name="monitor.quality",
    summary="How good predictions were, over time, where the truth is known.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/quality",
    request=ReadQuality,
    result=Quality,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (ADD_LABELS, READ_QUALITY)
