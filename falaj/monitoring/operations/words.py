"""Words that several declarations of this room use."""

from typing import Annotated, Final, Literal, TypeAlias

from falaj.base.operation import Group, Permission
from falaj.base.values import Items, Message, Name, NameOrNone, Number, Range, Text, value

Severity: TypeAlias = Literal["info", "warning", "critical"]
AlertKind: TypeAlias = Literal["drift", "missing", "schema", "quality", "service"]
ShownKind: TypeAlias = Literal["drift", "missing", "schema", "quality", "service", "verdict"]
ActionKind: TypeAlias = Literal["roll-back", "pause-canary", "fall-back", "retrain"]
ActionState: TypeAlias = Literal["waiting", "ready", "done", "refused", "failed"]
Season: TypeAlias = Literal["none", "hour", "week"]
GAP: Final = "gap"  # of quality between groups
Sentence = Annotated[str, Text(longest=2000)]
ColumnName = Annotated[str, Text(shortest=1, longest=500)]
Seconds = Annotated[int, Range(least=0, most=366 * 86_400)]
Word = Annotated[str, Text(longest=200)]
Channels = Annotated[tuple[Name, ...], Items(most=20)]

SEE: Final = Permission(name="monitor.read", group=Group.READ)
SET: Final = Permission(name="monitor.write", group=Group.DEPLOY)


@value
class Act(Message):
    """What is done when an alert of one of these kinds is raised: at most once in `cooldown` seconds, and `most` times a day.
    With `approval` somebody who may deploy has to agree first.

    `roll-back` goes to the split before, `pause-canary` keeps a canary from growing, `fall-back` serves the certified `variant`
    of the same version (the fastest, where none is named), and `retrain` starts the pipeline `pipeline`, or submits the job
    `job` once more, by its id.
    """

    do: ActionKind
    on: Annotated[tuple[AlertKind, ...], Items(least=1, most=5)] = ("drift",)
    cooldown: Seconds = 3600
    most: Annotated[int, Range(least=1, most=1000)] = 10
    approval: bool = False
    variant: Annotated[str, Text(longest=100)] = ""
    job: Annotated[str, Text(longest=32)] = ""
    pipeline: NameOrNone = ""


@value
class Objective(Message):
    """`share` of the calls are to be answered without an error (`availability`), or within `milliseconds` (`latency`), over
    `days`."""

    kind: Literal["availability", "latency"]
    share: Annotated[float, Range(least=0, most=1)]
    milliseconds: Annotated[int, Range(least=0, most=60_000)] = 0
    days: Annotated[int, Range(least=1, most=30)] = 30


@value
class QualityBound(Message):
    """A `figure` that `monitor.quality` tells, by its name there, is to be `at least` or `at most` `limit`, over predictions of
    the last `days`; or, where it is `gap`, each difference between groups of the column `slice`. `positive` is the answer that
    matters, of more than two classes."""

    figure: Annotated[str, Text(shortest=1, longest=200)]
    side: Literal["at least", "at most"]
    limit: Annotated[float, Range(least=-(10**300), most=10**300)]
    slice: Annotated[str, Text(longest=500)] = ""
    days: Annotated[int, Range(least=1, most=366)] = 7
    positive: Word = ""


@value
class Told(Message):
    """What came out for one column: `effect` is how far it is from the reference, from 0 to 1 (the largest distance of two
    cumulated distributions, or the share of rows of another kind); `evidence` how strongly that speaks against chance, where 1
    is the threshold. `missing` and `outside` are shares of rows. `drifting` says that both are beyond what is allowed."""

    column: str
    effect: Number
    evidence: Number
    missing: Number
    outside: Number
    drifting: bool = False
