"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.values import Items, Message, Name, NameOrNone, Personal, Range, Text, value

MOST_TASKS: Final = 10_000
STUDY: Final = "FALAJ_STUDY"  # the variable by which a trial's job says of which study it is
MOST_CONTINUED: Final = 20  # jobs that one repeats, by repeating one that repeats one
DAY_SECONDS: Final = 86_400

_JOB_NAME: Final = "takes letters, digits, spaces, '.', '_' and '-', at most 100, beginning with a letter or a digit"
JobName = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$", longest=100, says=_JOB_NAME)]
JobNameOrNone = Annotated[str, Text(pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._-]{0,99})?$", longest=100, says=_JOB_NAME)]
# An id, or as many of its last digits as tell it apart.
JobId = Annotated[
    str,
    Text(
        pattern=r"^[0-9a-f]{6,32}$",
        longest=32,
        says="must be a job's id, or six or more of the last digits of it, such as 5c6d7e",
    ),
]
QueueName = Name
QueueNameOrNone = NameOrNone
NodeName = Annotated[
    str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$", longest=200, says="must be the name of a host, such as gpu-7")
]
SecretName = Annotated[
    str,
    Text(
        pattern=r"^[A-Z][A-Z0-9_]{0,99}$",
        longest=100,
        says="takes capital letters, digits and '_', at most 100, beginning with a letter, such as LAKE_PASSWORD",
    ),
]
Variable = Annotated[
    str,
    Text(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$",
        longest=100,
        says="takes letters, digits and '_', at most 100, and does not begin with a digit, such as BATCH_SIZE",
    ),
]
HostPort = Annotated[
    str,
    Text(
        pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5})$",
        longest=255,
        says="must be the name of a host and a port, such as pypi.org:443, or * for every host",
    ),
]
# Parts joined by single slashes, none of them empty, `.` or `..`; nothing that could not be the name of an artifact.
_ODD: Final = r"/\\\x00-\x1f\x7f-\x9f\u2028\u2029"
_OUTPUT_PART: Final = rf"(?:[^.{_ODD}][^{_ODD}]*|\.[^.{_ODD}][^{_ODD}]*|\.\.[^{_ODD}]+)"
OutputName = Annotated[
    str,
    Text(
        pattern=rf"^{_OUTPUT_PART}(?:/{_OUTPUT_PART})*$",
        longest=500,
        says="must be the name of a file or a folder below $FALAJ_OUTPUT, such as model.onnx or figures/loss.png, without '..'",
    ),
]
Priority = Annotated[  # the name of a priority class
    str,
    Text(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,49}$",
        longest=50,
        says="must be the name of a priority class, such as high",
    ),
]
Label = Annotated[
    str,
    Text(
        pattern=r"^[A-Za-z0-9_.-]{0,50}$", longest=50, says="takes letters, digits, '.', '_' and '-', at most 50, such as web-1"
    ),
]
Model = Annotated[
    str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,99}$", longest=100, says="must be the model of a GPU, such as H100")
]
Seconds = Annotated[int, Range(least=0, most=366 * DAY_SECONDS)]
Reason = Annotated[str, Text(longest=2000), Personal()]
Line = Annotated[str, Text(longest=2000)]

JobState = Literal["waiting", "starting", "running", "stopping", "done", "failed", "cancelled"]
Ordering = Literal["fifo", "shortest"]
Topology = Literal["any", "host", "rack", "spread"]
Sharing = Literal["whole", "mps", "time"]


@value
class Resources(Message):
    """What one task takes. `gpus` may be whole cards, or a part of one card such as 0.5."""

    cpus: Annotated[float, Range(least=0, most=100_000)] = 1.0
    memory_mib: Annotated[int, Range(least=16, most=2**40)] = 1024
    gpus: Annotated[float, Range(least=0, most=1024)] = 0.0
    gpu_models: Annotated[tuple[Model, ...], Items(most=20)] = ()
    sharing: Sharing = "mps"
    io: Annotated[int, Range(least=0, most=1_000_000)] = 0


@value
class Usage(Message):
    """What was used, of what was asked for, and what it cost at the prices then in force (millionths of the currency)."""

    cpu_seconds: float = 0.0
    cpu_seconds_asked: float = 0.0
    memory_mib_peak: int = 0
    memory_mib_seconds_asked: float = 0.0
    memory_mib_seconds: float = 0.0
    gpu_seconds: float = 0.0
    gpu_busy_seconds: float = 0.0
    energy_joules: float = 0.0
    cost: int = 0


@value
class Place(Message):
    """Where a task runs."""

    node: NodeName
    cards: tuple[int, ...] = ()
