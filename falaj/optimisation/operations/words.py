"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.operation import Group, Permission
from falaj.base.values import Items, Message, Name, Number, Text, value

Target = Literal["cpu", "gpu", "edge"]
# What a form ran on when it was measured; empty where nobody told.
Device = Literal["", "cpu", "gpu"]
RAN_ON: Final[dict[str, str]] = {"": "nobody told what", "cpu": "the processor", "gpu": "the GPU"}
VariantState = Literal["planned", "skipped", "begun", "made", "dropped", "certified", "refused"]
TaskKind = Literal["classes", "numbers"]
ScoreKind = Literal["brier", "log"]
VariantName = Annotated[
    str,
    Text(
        pattern=r"^[a-z0-9][a-z0-9.+_-]{0,79}$",
        longest=80,
        says="must be a variant's name, such as int8 or pruned-50-openvino; `falaj model variants` lists them",
    ),
]
Step = Annotated[str, Text(pattern=r"^[a-z][a-z0-9-]*(:[A-Za-z0-9.,=_-]+)?$", longest=80)]
Steps = Annotated[tuple[Step, ...], Items(most=12)]
# What candidates are made of; behind a colon stands how much, or of what kind.
STEP_WORDS: Final = (
    "onnx", "fold", "half", "int8", "int8-weights", "int4-weights", "openvino", "openvino-half", "openvino-bf16",
    "openvino-int8", "openvino-int8-weights", "openvino-int4-weights", "litert", "litert-int8", "trees", "trees-onnx",
    "trees-masks", "prune", "sparsify", "distil", "torch-program", "settings",
)  # fmt: skip
Sentence = Annotated[str, Text(longest=2000)]
Sentences = Annotated[tuple[Sentence, ...], Items(most=200)]
Word = Annotated[str, Text(longest=200)]
MOST_FILES: Final = 20
MOST_CANDIDATES: Final = 60
MOST_GROUPS: Final = 500

SEE: Final = Permission(name="variant.see", group=Group.READ)
OPTIMISE: Final = Permission(name="model.optimise", group=Group.WRITE)


@value
class Setting(Message):
    """How a variant is to be run, such as `precision` `bf16`."""

    name: Word
    value: Word


Settings = Annotated[tuple[Setting, ...], Items(most=20)]


@value
class FileSeen(Message):
    name: str
    size: int
    digest: str


@value
class Host(Message):
    """Where something was measured. `kind` is the same on hosts that are as fast as each other, `shown` is for people;
    `libraries` are the engines that are installed, with their versions."""

    kind: Word
    shown: Sentence
    libraries: Annotated[tuple[Word, ...], Items(most=20)] = ()


@value
class Measures(Message):
    """Of one form of a model on one host, on one thread unless its settings say otherwise.

    `drop` is how much worse than the original it is on the rows that candidates are compared on (0.005: half a point), and
    `changes` the share of answers that it is likely to change, by how far it moves scores; -1 where nothing tells.
    `rows_per_s` is at the best batch, `batch`; `times` says how many times as many rows the original does in the same run.
    Latencies are of a single row, in milliseconds, the median and the 99th percentile each with its interval of 95 %. `memory`
    is what loading and running it takes, in bytes. `joules` are for 1,000 predictions; `energy` says how that was found out.
    `cost` is of a million predictions, in the platform's currency; 0 where it has no prices. `device` is what it ran on: a form
    that has no way to the GPU is measured on the processor, whatever the target.
    """

    drop: Number
    times: Number
    rows_per_s: Number
    batch: int
    p50_ms: Number
    p50_low: Number
    p50_high: Number
    p99_ms: Number
    p99_low: Number
    p99_high: Number
    size: int
    memory: int
    joules: Number
    energy: Word
    cost: Number
    device: Device = ""
    changes: Number = -1.0


@value
class DataSeen(Message):
    """A version of a dataset, by name, number and digest."""

    dataset: Name
    version: int
    digest: str
