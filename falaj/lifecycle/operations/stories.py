"""The story of a model version: everything from raw data to traffic, in one answer, with what the ledger proves of it.

It holds what its reader may see, asked for operation by operation; what was refused is said in `hidden`, and nothing else.
"""

from typing import Any, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Number, value
from falaj.datasets.operations.versions import Finding
from falaj.governance.ledger.heads import Head
from falaj.jobs.operations.words import Usage
from falaj.keys.endorsements import Endorsement
from falaj.registry.operations.promotions import Approval, Move
from falaj.registry.operations.versions import Version
from falaj.registry.operations.words import ModelName, VersionNumber

Chapter: TypeAlias = Literal[
    "data", "training", "evaluation", "variants", "pipelines", "approvals", "serving", "watching", "cost"
]  # fmt: skip
Stage: TypeAlias = Literal["data", "training", "registry", "evaluation", "pipeline", "approval", "serving", "watching"]
ThingKind: TypeAlias = Literal["", "dataset", "run", "job", "version", "variant", "pipeline-run", "endpoint", "alert", "abtest"]


@value
class ReadStory(Message):
    project: Name
    model: ModelName
    version: VersionNumber


@value
class Thing(Message):
    """What has a page of its own: by its id, or by its name where that is how it is found; `part` is a dataset's version, or a
    variant's name."""

    kind: ThingKind = ""
    id: str = ""
    part: str = ""


@value
class Recorded(Message):
    """Where the ledger has an event: the leaf that its call left.

    `proven`: sha256(0x00 || record) hashed along `path` gives the root of the story's head, and that was checked. `waiting`:
    recorded, and under no signed head yet. `missing`, or `differs` from what the platform says now: `words` say what to do.
    """

    state: Literal["proven", "waiting", "missing", "differs"]
    leaf: str = ""
    index: int | None = None
    words: str = ""
    record: str = ""
    path: tuple[str, ...] = ()


@value
class Event(Message):
    """`by` is empty where the platform did it by itself. `recorded` is None of what leaves no leaf of its own."""

    at: Moment
    stage: Stage
    words: str
    by: str
    thing: Thing
    recorded: Recorded | None


@value
class Pair(Message):
    name: str
    value: str


@value
class Measured(Message):
    name: str
    value: Number


@value
class DataTold(Message):
    """A version of a dataset that the model came from, `distance` steps away. `version` is 0 where Falaj has no such version:
    its client alone described it, and `state` is `elsewhere`. `findings` are the checks that were broken when it was made."""

    name: str
    version: int
    digest: str
    state: Literal["published", "quarantined", "pruned", "deleted", "elsewhere"]
    distance: int
    rows: int
    size: int
    zone: str
    made: Moment | None
    made_by: str
    findings: tuple[Finding, ...]
    derivation: str
    inputs: tuple[str, ...]


@value
class JobTold(Message):
    """`seconds` were spent by all of its tries. Its usage says what it cost."""

    id: str
    name: str
    purpose: Literal["training", "optimisation", "gate"]
    state: str
    by: str
    submitted: Moment
    seconds: float
    tries: int
    usage: Usage


@value
class Training(Message):
    """The run that the version came from. `started` and `ended` are as its client says, in milliseconds since 1970."""

    run: str
    name: str
    experiment: str
    experiment_number: int
    status: str
    by: str
    created: Moment
    started: int
    ended: int | None
    deleted: bool
    params: tuple[Pair, ...]
    metrics: tuple[Measured, ...]


@value
class GateTold(Message):
    """What a gate found. `counts`: this is what a promotion looks at. `against` is the version that it was held against, 0 for
    none; `digest` is that of the figures, which the ledger has as well."""

    gate: str
    passed: bool
    counts: bool
    words: str
    against: int
    digest: str
    job: str
    by: str
    at: Moment


@value
class Answer(Message):
    """What a run asked, and what was said: `nobody` where it ended without. `words` are those of who refused."""

    step: str
    question: str
    said: Literal["agreed", "refused", "waiting", "nobody"]
    by: str
    words: str
    at: Moment | None


@value
class PipelineTold(Message):
    """A run of a pipeline that `made` the version, or handed it on. It acts in the name of `by`; `trigger` is what started it,
    empty where somebody did, and `why` what it or they said."""

    run: str
    pipeline: str
    version: int
    made: bool
    state: str
    by: str
    trigger: str
    why: str
    started: Moment
    ended: Moment | None
    answers: tuple[Answer, ...]


@value
class VariantTold(Message):
    """A variant that was made, and what became of it. `times` is how many times as many rows as the original it does."""

    id: str
    name: str
    state: str
    runtime: str
    certificate: str
    best: bool
    max_drop: Number
    times: Number | None
    reason: str
    settled: Moment | None


@value
class Span(Message):
    """From `since` until `until`, or still, `revision` had this share, in hundredths of a per cent; a shadow gets copies.

    `change` and `reason` say what began it, `end` and `end_reason` what ended it; `by` and `end_by` are empty where the
    platform decided."""

    since: Moment
    until: Moment | None
    revision: int
    share: int
    role: Literal["live", "shadow"]
    change: str
    by: str
    reason: str
    end: str = ""
    end_by: str = ""
    end_reason: str = ""


@value
class RevisionTold(Message):
    number: int
    runtime: str
    variant: str
    certificate: str
    created: Moment
    by: str
    quarantined: str


@value
class Traffic(Message):
    """Of this version in the last `days`: `p99` is that of the slowest stretch, in milliseconds."""

    days: int
    requests: int
    errors: int
    shed: int
    rows: int
    p99: float


@value
class Figure(Message):
    """`at` is the figure, which lies between `low` and `high` in 19 of 20 cases."""

    revision: int
    name: str
    at: Number
    low: Number
    high: Number
    rows: int


@value
class AlertTold(Message):
    id: str
    title: str
    severity: str
    kind: str
    sentence: str
    raised: Moment
    resolved: Moment | None
    done: tuple[str, ...]


@value
class TestTold(Message):
    """An A/B test that a revision of this version took part in. `word` is what was concluded of it."""

    id: str
    name: str
    state: str
    sentence: str
    word: str
    started: Moment
    ended: Moment | None


@value
class Served(Message):
    """An endpoint that this version answers at, or did. `share` is what it has now."""

    id: str
    endpoint: str
    zone: str
    deleted: Moment | None
    share: int
    revisions: tuple[RevisionTold, ...]
    spans: tuple[Span, ...]
    traffic: Traffic | None
    quality: tuple[Figure, ...]
    alerts: tuple[AlertTold, ...]
    abtests: tuple[TestTold, ...]


@value
class Hidden(Message):
    """A chapter, or a part of it, that policy keeps from this reader, and the rule's own words."""

    chapter: Chapter
    words: str


@value
class Ledger(Message):
    """The head that every proof of the story leads to, and the keys (hex) that heads are signed with, so that it can all be
    checked without the platform. `genuine` says whether the head's signature was found to be one of theirs."""

    head: Head | None
    genuine: bool
    keys: dict[str, str]
    endorsements: tuple[Endorsement, ...]
    proven: int
    waiting: int
    troubled: int
    words: str


@value
class Story(Message):
    """`summary` is the whole of it in a sentence or two. `cut` says that there are more events than are told, the oldest of
    moves and changes being left out."""

    project: str
    asked: Moment
    summary: str
    version: Version
    registered_by: str
    sbom: str
    data: tuple[DataTold, ...]
    features: tuple[str, ...]
    training: Training | None
    gates: tuple[GateTold, ...]
    variants: tuple[VariantTold, ...]
    pipelines: tuple[PipelineTold, ...]
    moves: tuple[Move, ...]
    approvals: tuple[Approval, ...]
    served: tuple[Served, ...]
    jobs: tuple[JobTold, ...]
    events: tuple[Event, ...]
    ledger: Ledger
    hidden: tuple[Hidden, ...]
    cut: bool


READ_STORY: Final = Operation(
    name="version.story",
    summary="Tell a version's story: data, training, gates, approvals, traffic, drift, cost, and what the ledger proves of it.",
    method="GET",
    path="projects/{project}/version/story",
    request=ReadStory,
    result=Story,
    permission=Permission(name="version.story", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (READ_STORY,)
