"""A/B tests: revisions of an endpoint held against the one they would replace, by what became of their predictions."""

import math
from typing import Annotated, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, NameOrNone, Number, Range, Text, value
from falaj.monitoring.operations.labels import Finite
from falaj.monitoring.operations.words import SEE, SET, Sentence
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.words import EndpointName, Reason, RevisionNumber, RevisionNumberOrNone, Share

MOST_CANDIDATES: Final = 9
MOST_GUARDRAILS: Final = 10
Better: TypeAlias = Literal["higher", "lower"]
OutcomeKind: TypeAlias = Literal["binary", "bounded", "mean"]
State: TypeAlias = Literal["running", "won", "lost", "same", "broken", "over", "mismatch", "overtaken", "stopped"]
Word: TypeAlias = Literal["open", "winner", "loser", "same", "broken", "mismatch"]
ValueNameOrNone = Annotated[
    str,
    Text(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_ .-]{0,99})?$",
        longest=100,
        says="must be a value's name: letters, digits, spaces, dots and dashes",
    ),
]
Part = Annotated[float, Range(least=0, most=1)]
AtLeastNothing = Annotated[float, Range(least=0, most=10**300)]


@value
class Metric(Message):
    """What is measured of a unit: how often its predictions were `right`, their `truth` as a number, or a `value` that came
    with the labels, by its name; with `per` one value for each of another, such as spent per visit.

    A `binary` outcome is 0 or 1, a `bounded` one lies between `low` and `high`: their intervals hold exactly. Of any other the
    `mean` is followed, whose intervals hold nearly, from some hundred units on; `covariate` is a value that was known of each
    before and makes them narrower.
    """

    of: Literal["right", "truth", "value"] = "right"
    value: ValueNameOrNone = ""
    per: ValueNameOrNone = ""
    kind: OutcomeKind = "binary"
    low: Finite = 0.0
    high: Finite = 1.0
    covariate: ValueNameOrNone = ""
    better: Better = "higher"


@value
class Guardrail(Message):
    """What a candidate must not make worse by more than `worst`: the share of calls with `errors`, the share of them that are
    `slow` (beyond the endpoint's latency objective), or a `metric`."""

    of: Literal["errors", "slow", "metric"]
    metric: Metric | None = None
    worst: AtLeastNothing = 0.0


@value
class Candidate(Message):
    """A revision that is there, and its share of the traffic; 0 for as much as every other has."""

    revision: RevisionNumber
    share: Share = 0


@value
class Design(Message):
    """What is tested against the revision `incumbent`, which is the one that answers most where it is left out.

    It is decided when chance explains what was seen less often than `1 - confidence` allows, however often somebody looks; or
    when no candidate can differ by `least_effect` any more, where that is given; or after so many `days`. `power` is for the
    plan alone. A winner is promoted (`promote`) or only told of; everything that ends without one goes back to the split
    before (`back`), or stays (`tell`).
    """

    candidates: Annotated[tuple[Candidate, ...], Items(least=1, most=MOST_CANDIDATES)]
    incumbent: RevisionNumberOrNone = 0
    metric: Metric = Metric()
    guardrails: Annotated[tuple[Guardrail, ...], Items(most=MOST_GUARDRAILS)] = ()
    confidence: Part = 0.95
    power: Part = 0.8
    least_effect: AtLeastNothing = 0.0
    days: Annotated[int, Range(least=1, most=366)] = 28
    on_win: Literal["promote", "tell"] = "tell"
    on_loss: Literal["back", "tell"] = "back"


@value
class CreateAbtest(Message):
    """Splits the traffic as the test wants it, at once. Its name is its own in the project."""

    project: Name
    endpoint: EndpointName
    name: NameOrNone = ""
    design: Design
    reason: Reason = ""


@value
class PlanAbtest(Message):
    project: Name
    endpoint: EndpointName
    design: Design


@value
class Expected(Message):
    """What was known beforehand, of the last 30 days: `mean` and `deviation` of the metric with the incumbent over `labelled`
    rows, calls a day, and how many units a day come to be known. From that: the units of both arms that it takes to see the
    least effect, the days that these take, and the least effect that shows in the days there are. What nobody can know yet is
    not a number, or without end."""

    mean: Number
    deviation: Number
    labelled: int
    calls_per_day: Number
    units_per_day: Number
    units_needed: Number
    days_needed: Number
    least_effect: Number
    sentences: tuple[Sentence, ...]


@value
class ListAbtests(Message):
    """Newest first; of one endpoint where it is named."""

    project: Name
    endpoint: NameOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class OneAbtest(Message):
    """By its name, or its id."""

    project: Name
    abtest: Name


@value
class StopAbtest(Message):
    """Ends a test without a verdict: `back` to the split before, or with the split as it is (`tell`)."""

    project: Name
    abtest: Name
    then: Literal["back", "tell"] = "back"
    reason: Reason = ""


@value
class Difference(Message):
    """To the incumbent: `at` is what was seen, and it lies between `low` and `high` with the test's confidence."""

    at: Number
    low: Number
    high: Number


@value
class ArmShown(Message):
    """`word` is what was concluded of a candidate so far. `mean` is per unit, and of a ratio the ratio; `calls` were counted
    since the test began."""

    revision: RevisionNumber
    model: str
    version: int
    incumbent: bool
    share: Share
    word: Word
    units: int
    mean: Number
    difference: Difference | None
    calls: int
    expected_units: Number


@value
class GuardrailShown(Message):
    """Of one candidate. `harm` is by how much it is worse than the incumbent, `low` how much that is at least; it is `broken`
    where that is more than `worst`. `unit` is `share` or `number`."""

    name: str
    unit: str
    revision: RevisionNumber
    incumbent: Number
    candidate: Number
    harm: Number
    low: Number
    worst: Number
    broken: bool

    @property
    def known(self) -> bool:
        """Whether anything was counted of both yet; before, it neither holds nor breaks."""
        return math.isfinite(self.incumbent) and math.isfinite(self.candidate)


@value
class Abtest(Message):
    """`sentence` says how it stands. `mismatch` says that units are lost on the way: those of one arm are more or fewer than
    its share explains, and no verdict is given while that is so. `counted` is when all planes had taken up the split, from when
    on predictions count. `acted` is what was done of itself. `unit` is of the metric: a `share` of 1, or a `number`."""

    id: Id
    name: str
    endpoint: str
    state: State
    sentence: Sentence
    design: Design
    metric: str
    unit: str
    expected: Expected
    arms: tuple[ArmShown, ...]
    guardrails: tuple[GuardrailShown, ...]
    mismatch: str
    units: int
    repeated: int
    crossed: int
    started: Moment
    started_by: Person
    counted: Moment | None
    ends: Moment
    ended: Moment | None
    ended_by: Person | None
    acted: str
    remarks: tuple[Sentence, ...] = ()


@value
class Abtests(Message):
    items: tuple[Abtest, ...]
    next: str = ""


@value
class Point(Message):
    """How it stood once so many units were known: by candidate, in their order."""

    at: Moment
    units: int
    differences: tuple[Difference, ...]


@value
class Points(Message):
    """Oldest first; some hundred at most, however long it went."""

    candidates: tuple[RevisionNumber, ...]
    items: tuple[Point, ...]


CREATE_ABTEST: Final = Operation(
    name="abtest.create",
    summary="Test revisions of an endpoint against the one that answers, by what becomes of their predictions.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/abtests",
    request=CreateAbtest,
    result=Abtest,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PLAN_ABTEST: Final = Operation(
    name="abtest.plan",
    summary="What a test could show, and how long it would take.",
    method="POST",
    path="projects/{project}/endpoints/{endpoint}/abtests/plan",
    request=PlanAbtest,
    result=Expected,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_ABTESTS: Final = Operation(
    name="abtest.list",
    summary="List a project's A/B tests.",
    method="GET",
    path="projects/{project}/abtests",
    request=ListAbtests,
    result=Abtests,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_ABTEST: Final = Operation(
    name="abtest.show",
    summary="How an A/B test stands, or what came of it.",
    method="GET",
    path="projects/{project}/abtests/{abtest}",
    request=OneAbtest,
    result=Abtest,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_POINTS: Final = Operation(
    name="abtest.points",
    summary="How the intervals of an A/B test went.",
    method="GET",
    path="projects/{project}/abtests/{abtest}/points",
    request=OneAbtest,
    result=Points,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
STOP_ABTEST: Final = Operation(
    name="abtest.stop",
    summary="End an A/B test without a verdict.",
    method="POST",
    path="projects/{project}/abtests/{abtest}/stop",
    request=StopAbtest,
    result=Abtest,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
OPERATIONS: Final = (CREATE_ABTEST, PLAN_ABTEST, LIST_ABTESTS, SHOW_ABTEST, READ_POINTS, STOP_ABTEST)
