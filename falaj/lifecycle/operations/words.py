"""What a pipeline is made of, as it is written down: steps, their arguments, and what an argument may refer to.

An argument is JSON. An object `{"$": ...}` in it stands for what is known only later:

- `{"$": "parameters.depth"}`, `{"$": "steps.train.version"}`, `{"$": "item"}`, `{"$": "run"}`: what is there, by its way;
  `{"$": "steps.models.*.version"}` is a list: that of each.
- `{"$": "called.job.id"}`, `{"$": "answer.state"}`: what was answered, in `until` alone.
- `{"$": "<", "of": [a, b]}`: what comes of others; see `OPERATORS`.
"""

from dataclasses import field
from typing import Annotated, Any, Final, Literal, TypeAlias

from falaj.base.operation import Group, Permission
from falaj.base.values import Items, Message, Range, Text, value
from falaj.jobs.operations.words import HostPort, QueueNameOrNone, Resources, SecretName

MOST_STEPS: Final = 500
MOST_ITEMS: Final = 1000  # of one fan-out
MOST_OF_RUN: Final = 10_000  # steps and items of one run together
LARGEST: Final = 262_144  # bytes of what a step is given, and of what it hands on
AGAIN: Final = 75  # what a function's program ends with, as others do, where trying later may help
OPERATORS: Final = ("==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "in", "first", "count", "text")

READ: Final = Permission(name="pipeline.read", group=Group.READ)
RUN: Final = Permission(name="pipeline.run", group=Group.WRITE)
WRITE: Final = Permission(name="pipeline.write", group=Group.WRITE)
TELL: Final = Permission(name="pipeline.tell", group=Group.WRITE)
DECIDE: Final = Permission(name="pipeline.decide", group=Group.DEPLOY)

# What things are. Those that are not plain JSON are written like this: {"dataset": "flights", "version": 3}, {"run": "<id>"},
# {"model": "late", "version": 2}, {"endpoint": "late", "revision": 4}.
Kind: TypeAlias = Literal["any", "text", "number", "whole", "flag", "list", "dataset", "run", "model", "endpoint", "nothing"]
StepKind: TypeAlias = Literal["function", "operation", "optimise", "value", "approval", "wait"]
Family: TypeAlias = Literal["temporary", "permanent", "timeout", "lost"]
RunState: TypeAlias = Literal["running", "done", "failed", "cancelled"]
StepState: TypeAlias = Literal["waiting", "running", "asking", "done", "failed", "skipped", "cancelled"]

_STEP_NAME: Final = "takes small letters, digits, '_' and '-', at most 100, beginning with a letter"
StepName = Annotated[str, Text(pattern=r"^[a-z][a-z0-9_-]{0,99}$", longest=100, says=_STEP_NAME)]
ArgumentName = Annotated[
    str,
    Text(
        pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$", longest=100, says="must be a name as Python has them, such as learning_rate"
    ),
]
Word = Annotated[str, Text(longest=200)]
Sentence = Annotated[str, Text(longest=2000)]
Digest = Annotated[str, Text(pattern=r"^([0-9a-f]{64})?$", longest=64, says="must be the SHA-256 of something, or empty")]
Seconds = Annotated[int, Range(least=0, most=366 * 86_400)]


@value
class Parameter(Message):
    """What whoever starts a run may say. A dataset without a version means the current one at the start, and stays that."""

    name: ArgumentName
    kind: Kind = "any"
    default: Any = None
    required: bool = False


@value
class Function(Message):
    """A Python function of the user's, which runs in a job of its own: `name` in `file` of the pipeline's source.

    `code` is the digest of what the function is made of: while that, its arguments and its environment stay the same, what it
    returned before is taken. `permissions` are what the job's token may do.
    """

    file: Annotated[str, Text(pattern=r"^[A-Za-z0-9_./-]{1,200}\.py$", longest=203, says="must be the way to a file of Python")]
    name: ArgumentName
    code: Digest
    lock: Annotated[str, Text(longest=1_000_000)] = ""
    image: Annotated[str, Text(longest=500)] = ""
    resources: Resources = Resources()
    queue: QueueNameOrNone = ""
    permissions: Annotated[tuple[Word, ...], Items(most=50)] = ()
    secrets: Annotated[tuple[SecretName, ...], Items(most=50)] = ()
    hosts: Annotated[tuple[HostPort, ...], Items(most=50)] = ()
    experiment: Annotated[str, Text(longest=500)] = ""


@value
class Until(Message):
    """Ask `operation` with these arguments every `every` seconds, until the condition `done` or `failed` holds. In all three
    `called` is what the step's own operation answered, and in the conditions `answer` what was answered last; that one is what
    the step hands on."""

    operation: Word
    arguments: dict[str, Any]
    done: Any
    failed: Any = False
    result: Any = None
    every: Annotated[float, Range(least=0, most=3600)] = 1.0


@value
class Step(Message):
    """- `after`: steps that have to be over first, besides those its arguments speak of.
    - `when`: a condition; where it does not hold, the step is skipped, and so is whatever speaks of it.
    - `each`: a list; the step is done once for each `item` of it, and hands on the list of what came out.
    - `retries`: after failures of the families in `on`, with growing pauses; what the platform cannot do now is waited for.
    - `seconds`: after which it has failed, counted from the start of its job where it has one.
    - `cached`: what came out before is taken where nothing changed.
    - `function`, `operation` with `until`, `question` and `event` say what is done, by `kind`. An approval is asked for by its
      `question`, or its argument of that name; a wait is over when the run is sent an `event` of that name, or after its
      argument `seconds`.
    """

    name: StepName
    kind: StepKind
    arguments: dict[ArgumentName, Any] = field(default_factory=dict)
    result: Kind = "any"
    after: Annotated[tuple[StepName, ...], Items(most=MOST_STEPS)] = ()
    when: Any = True
    each: Any = None
    at_once: Annotated[int, Range(least=1, most=MOST_ITEMS)] = 16
    retries: Annotated[int, Range(least=0, most=100)] = 0
    on: Annotated[tuple[Family, ...], Items(most=4)] = ("temporary", "timeout", "lost")
    seconds: Seconds = 86_400
    cached: bool = False
    function: Function | None = None
    operation: Word = ""
    until: Until | None = None
    question: Sentence = ""
    event: Word = ""
    words: Sentence = ""


@value
class Definition(Message):
    """A pipeline: everything a run needs to know, checked before it is taken. `source` are the files of its functions, sent
    before with `job.upload-source`. `result` is what a run hands on as a whole."""

    parameters: Annotated[tuple[Parameter, ...], Items(most=100)] = ()
    steps: Annotated[tuple[Step, ...], Items(least=1, most=MOST_STEPS)]
    source: Digest = ""
    result: Any = None
    words: Sentence = ""
