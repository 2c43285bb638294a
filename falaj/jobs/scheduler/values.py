"""What the scheduler is told and what it answers, as frozen values.

Amounts are whole numbers: CPU in thousandths of a core, memory in MiB, GPUs in thousandths of a card. Moments and spans are
microseconds. Quotas speak of resources by name: `cpu`, `memory`, `io`, `gpu` (any model) and `gpu:MODEL`.
"""

from collections.abc import Mapping
from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.values import value

CARD: Final = 1000  # thousandths of a GPU in a whole one
CPU, MEMORY, IO, GPU = "cpu", "memory", "io", "gpu"


def gpu_of(model: str) -> str:
    """The resource that counts cards of one model; a MIG profile is written `H100/1g.10gb` and is a model of its own."""
    return f"gpu:{model}"


Ordering = Literal["fifo", "shortest"]
Topology = Literal["any", "host", "rack", "spread"]
Sharing = Literal["whole", "mps", "time"]


@value
class Shape:
    """What one task takes. `gpu_milli` is below a whole card only where `gpus` is 1; `models` empty allows every model.

    `sharing` says what a part of a card may be: `mps` is isolated in memory; `time` is not, and stays within one project.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = CARD
    models: tuple[str, ...] = ()
    io: int = 0
    sharing: Sharing = "mps"


@value
class Job:
    """Work that wants to run: `count` equal tasks, all at once or not at all; an elastic one makes do with `least`.

    `zones` are the only ones it may run in: none means that it may run nowhere, so every job names at least one.
    `duration` is what the whole of it takes on `count` tasks, declared or learned; 0 where nobody knows. `served` is the time
    it has run for already and need not run again. `lost` of it would have to be done again if it were stopped now is known
    to `Running.checkpointed`. `not_before` holds back a retry.
    """

    id: str
    project: str
    user: str
    queue: str
    submitted: Moment
    shape: Shape
    zones: tuple[str, ...]
    priority: int = 0
    count: int = 1
    least: int = 0
    duration: int = 0
    served: int = 0
    timeout: int = 0
    not_before: Moment = Moment(0)
    deadline: Moment | None = None
    topology: Topology = "any"
    apart_from: tuple[str, ...] = ()  # labels of its project's other jobs that no host may run beside this
    label: str = ""
    preemptible: bool = True
    saves: bool = False  # it saves what it did when it is asked to stop
    grace: int = 30_000_000
    price_per_hour: int = 0  # of all its tasks, in millionths of the platform's currency; 0 where nothing is charged


@value
class Seat:
    """Where a task is: a host and which of its cards."""

    node: str
    cards: tuple[int, ...] = ()


Placement = tuple[Seat, ...]


@value
class Running:
    """A job that holds its seats. `checkpointed` is the moment up to which nothing would be lost; `stopping` the moment at
    which it is killed if it has not ended by then."""

    job: Job
    placement: Placement
    started: Moment
    checkpointed: Moment = Moment(0)
    stopping: Moment | None = None


@value
class Node:
    """A host. `cards` names the model of each of its GPUs; `sharing` what its cards offer. `open` is false while it drains.
    Tasks of one job are never on hosts of two engines."""

    name: str
    zone: str
    cpu_milli: int
    memory_mib: int
    cards: tuple[str, ...] = ()
    io: int = 0
    rack: str = ""
    open: bool = True
    sharing: tuple[Sharing, ...] = ("whole", "mps")
    price_per_hour: int = 0
    engine: str = ""


@value
class Quota:
    """Of one resource: what a queue is owed, how much more it may borrow, how much of its own it lends; None for no limit."""

    nominal: int
    borrow: int | None = None
    lend: int | None = None


@value
class Cohort:
    """Queues and cohorts that lend to each other. Quotas of its own are for all of them to share."""

    name: str
    parent: str = ""
    quotas: Mapping[str, Quota]
    weight: int = 1000


@value
class Queue:
    """`reclaim`: what is lent comes back by preemption. `preempt`: a higher priority within the queue may do the same.

    `order` is how equals stand in line; `shortest` goes by remaining service and, with `preempt`, lets a much shorter job
    take the place of a longer one. `budget` is the most that may be spent per 30 days, in millionths; 0 for no cap.
    """

    name: str
    cohort: str = ""
    quotas: Mapping[str, Quota]
    weight: int = 1000
    order: Ordering = "fifo"
    preempt: bool = True
    reclaim: bool = True
    open: bool = True
    budget: int = 0
    spent: int = 0


@value
class Rules:
    """What holds for all queues; the defaults are what ships."""

    half_life: int = 24 * 3600 * 1_000_000  # of what counts as past use
    least_run: int = 60 * 1_000_000  # nothing is preempted sooner
    aging: int = 3600 * 1_000_000  # so much waiting lifts a job by one step of priority (`aging_step`)
    aging_step: int = 10
    longest_wait: int = 7 * 24 * 3600 * 1_000_000  # after which it is reserved for, whatever comes
    reservations: int = 4  # at most so many jobs hold a place in the future at a time
    look: int = 100  # so many waiting jobs of a queue are tried behind one that does not fit
    longest_grace: int = 120 * 1_000_000  # for what is asked back, whatever a job asked for

    def grace_of(self, job: Job) -> int:
        """How long it may take to give back what others are to have."""
        return min(job.grace, self.longest_grace)


@value
class Start:
    """`reason` is a sentence of why now: its own share, borrowed, backfilled, after a reclaim."""

    job: str
    placement: Placement
    reason: str
    borrowed: bool = False


@value
class Stop:
    """Give back, within the job's grace as far as rules allow it. `for_job` is who gets the place."""

    job: str
    reason: str
    for_job: str = ""
    until: Moment


@value
class Resize:
    """An elastic job goes on with other seats."""

    job: str
    placement: Placement
    reason: str


@value
class Reserve:
    """A place in the future that backfilling does not touch."""

    job: str
    at: Moment
    nodes: tuple[str, ...]


WaitKind = Literal["quota", "room", "zone", "model", "order", "held", "budget", "queue-closed", "never"]


@value
class Wait:
    """Why a job at the front of its queue does not run: `kind` for machines, `sentence` for people.

    `behind` counts who is before it in its queue; `never` says that no node, quota or zone could ever take it as it is.
    """

    job: str
    kind: WaitKind
    sentence: str
    resource: str = ""
    behind: int = 0


@value
class Plan:
    """One round's decisions. `waits` is about the heads that were looked at; `next` says when to look if nothing happens."""

    at: Moment
    starts: tuple[Start, ...] = ()
    stops: tuple[Stop, ...] = ()
    resizes: tuple[Resize, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    waits: tuple[Wait, ...] = ()
    next: Moment | None = None
