"""Hosts that jobs run on, what they are doing, and whether there are enough of them."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Nothing, Range, Text, value
from falaj.jobs.operations.words import Line, NodeName, Reason


@value
class Card(Message):
    """One GPU. `held` is the part of it that jobs have, 0 to 1; `busy` how much it computes, as it says itself where it is
    `measured`; `idle_since` when one that is held last did anything."""

    index: int
    model: str
    held: float
    busy: float
    memory_mib: int
    memory_used_mib: int
    jobs: int
    idle_since: Moment | None = None
    measured: bool = False


@value
class Node(Message):
    """`free` is what no job holds. `last_seen` is when its engine last spoke of it; `flags` says what is odd about it. One that
    is `silent` takes nothing new, and is `lost` after two minutes of that.

    One of a pool, which is there on demand, is `starting` until its engine has it and `going` from when it is given back."""

    name: NodeName
    engine: str
    zone: str
    rack: str
    cpus: float
    cpus_free: float
    memory_mib: int
    memory_mib_free: int
    cards: tuple[Card, ...]
    jobs: int
    state: Annotated[str, Text(pattern=r"^(ready|silent|draining|drained|lost|starting|going)$", longest=20)]
    last_seen: Moment
    flags: tuple[Line, ...] = ()
    pool: str = ""


@value
class Nodes(Message):
    items: tuple[Node, ...]


@value
class Drain(Message):
    """Lets nothing new start there. `stop` also asks what runs there to give back, within its grace."""

    node: NodeName
    stop: bool = False
    reason: Reason = ""


@value
class Resume(Message):
    node: NodeName


@value
class ReadCapacity(Message):
    """`of` and `name` say whose use over time is told: that of a queue, a project or a node; without them, that of all."""

    days: Annotated[int, Range(least=1, most=400)] = 14
    of: Annotated[
        str,
        Text(
            pattern=r"^(|queue|project|node)$",
            longest=20,
            says="must be queue, project or node with a name, such as queue:research",
        ),
    ] = ""
    name: Annotated[str, Text(longest=200)] = ""


@value
class UsedBy(Message):
    """Seconds of what, by whom: a queue, a project, a user or a node, as `kind` says."""

    kind: str
    name: str
    cpu_seconds_asked: float
    cpu_seconds: float
    gpu_seconds: float
    gpu_busy_seconds: float
    gpu_idle_seconds: float
    energy_joules: float
    cost: int
    jobs: int


@value
class UtilisationPoint(Message):
    at: Moment
    cpus: float
    cpus_held: float
    cpus_busy: float
    gpus: float
    gpus_held: float
    gpus_busy: float
    waiting: int


@value
class LevelMet(Message):
    """Of the jobs of a priority class that promises to start them in time: how many it was due for, and how many it met."""

    priority: str
    start_within_seconds: int
    jobs: int
    met: int


@value
class Capacity(Message):
    """`advice` says what would help most, with the figures behind it. `levels` has the classes that promise something."""

    points: tuple[UtilisationPoint, ...]
    used: tuple[UsedBy, ...]
    advice: tuple[Line, ...]
    flags: tuple[Line, ...] = ()
    levels: tuple[LevelMet, ...] = ()


READ: Final = Permission(name="node.read", group=Group.OPERATE)
DRAIN: Final = Permission(name="node.drain", group=Group.OPERATE)
READ_CAPACITY: Final = Permission(name="capacity.read", group=Group.OPERATE)

LIST_NODES: Final = Operation(
    name="node.list",
    summary="The hosts that jobs run on.",
    method="GET",
    path="platform/nodes",
    request=Nothing,
    result=Nodes,
    permission=READ,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
DRAIN_NODE: Final = Operation(
    name="node.drain",
    summary="Let nothing new start on a host.",
    method="POST",
    path="platform/nodes/{node}/drain",
    request=Drain,
    result=Node,
    permission=DRAIN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
RESUME_NODE: Final = Operation(
    name="node.resume",
    summary="Let jobs start on a host again.",
    method="POST",
    path="platform/nodes/{node}/resume",
    request=Resume,
    result=Node,
    permission=DRAIN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
READ_CAPACITY_REPORT: Final = Operation(
    name="capacity.report",
    summary="How the hosts were used, by whom, and what would help.",
    method="GET",
    path="platform/capacity",
    request=ReadCapacity,
    result=Capacity,
    permission=READ_CAPACITY,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (
    LIST_NODES,
    DRAIN_NODE,
    RESUME_NODE,
    READ_CAPACITY_REPORT,
)
