"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.values import Items, Message, Name, NameOrNone, Personal, Range, Text, value

MOST_TASKS: Final = 10_000
DAY_SECONDS: Final = 86_400

JobName = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$", longest=100)]
JobNameOrNone = Annotated[str, Text(pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._-]{0,99})?$", longest=100)]
# An id, or as many of its last digits as tell it apart.
JobId = Annotated[str, Text(pattern=r"^[0-9a-f]{6,32}$", longest=32)]
QueueName = Name
QueueNameOrNone = NameOrNone
NodeName = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$", longest=200)]
SecretName = Annotated[str, Text(pattern=r"^[A-Z][A-Z0-9_]{0,99}$", longest=100)]
Variable = Annotated[str, Text(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$", longest=100)]
HostPort = Annotated[str, Text(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5})$", longest=255)]
Priority = Annotated[str, Text(pattern=r"^[a-z0-9][a-z0-9._-]{0,49}$", longest=50)]  # the name of a priority class
Label = Annotated[str, Text(pattern=r"^[A-Za-z0-9_.-]{0,50}$", longest=50)]
Model = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,99}$", longest=100)]
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
