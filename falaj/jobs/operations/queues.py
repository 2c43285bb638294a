"""Queues and cohorts: who is owed what, who lends to whom, and what would be if it were otherwise."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Items, Message, Name, NameOrNone, Nothing, Range, Text, value
from falaj.jobs.operations.words import Line, Ordering, Priority, QueueName, Resources, Seconds

Amount = Annotated[int, Range(least=0, most=2**53)]
ResourceName = Annotated[
    str,
    Text(
        pattern=r"^(cpu|memory|io|gpu|gpu:[A-Za-z0-9][A-Za-z0-9 ._/-]{0,99})$",
        longest=110,
        says="must be cpu, memory, io, gpu, or gpu and a model, such as gpu:H100",
    ),
]


@value
class QuotaOf(Message):
    """`nominal` is what is owed; `borrow` and `lend` bound what may be had beyond it and what others may have of it; None for
    no bound. CPU in thousandths of a core, memory in MiB, GPUs in thousandths of a card."""

    resource: ResourceName
    nominal: Amount
    borrow: Amount | None = None
    lend: Amount | None = None


Quotas = Annotated[tuple[QuotaOf, ...], Items(most=100)]
Weight = Annotated[int, Range(least=1, most=1_000_000)]


@value
class CohortSpec(Message):
    name: Name
    parent: NameOrNone = ""
    quotas: Quotas = ()
    weight: Weight = 1000


@value
class QueueSpec(Message):
    """`projects` may use it; without any, all may. `monthly_budget` in millionths of the currency, 0 for none.

    `idle_gpu_seconds`: a job whose cards did nothing for so long is stopped; 0 for never.
    """

    name: QueueName
    cohort: NameOrNone = ""
    quotas: Quotas = ()
    weight: Weight = 1000
    order: Ordering = "fifo"
    preempt: bool = True
    reclaim: bool = True
    open: bool = True
    projects: Annotated[tuple[Name, ...], Items(most=1000)] = ()
    monthly_budget: Amount = 0
    idle_gpu_seconds: Seconds = 0


@value
class PriorityClass(Message):
    """A name for how urgent a job is; higher goes first. `most` is what a project may have at once, 0 for no bound.

    `start_within_seconds` is its service level: a job of it becomes more urgent as that time runs out, as one with a deadline
    does, and how many started in time is reported; 0 for none.
    """

    name: Priority
    value: Annotated[int, Range(least=-1_000_000, most=1_000_000)]
    most: Annotated[int, Range(least=0, most=1_000_000)] = 0
    start_within_seconds: Seconds = 0


@value
class ApplyQueues(Message):
    """All queues, cohorts and priority classes as they are to be. What is not named any more is removed, unless jobs use it.

    `dry_run` checks and changes nothing. `serial`, where it is not 0, must be that of the queues being replaced.
    """

    queues: Annotated[tuple[QueueSpec, ...], Items(least=1, most=1000)]
    cohorts: Annotated[tuple[CohortSpec, ...], Items(most=1000)] = ()
    priorities: Annotated[tuple[PriorityClass, ...], Items(most=50)] = ()
    dry_run: bool = False
    serial: Annotated[int, Range(least=0, most=2**62)] = 0


@value
class Applied(Message):
    """What is, or would be, otherwise than before, a line each."""

    serial: int
    changes: tuple[Line, ...]
    remarks: tuple[Line, ...] = ()


@value
class ShareOf(Message):
    """In the resource's unit. `free` is what the queue could still have, borrowing included."""

    resource: str
    nominal: int
    used: int
    borrowed: int
    lent: int
    free: int


@value
class Queue(Message):
    """`fair_share` is what it has borrowed, weighed, as a part of everything; the smallest is served first. `usable`: by the
    asker's project; others are shown for the shares they lend and borrow."""

    spec: QueueSpec
    shares: tuple[ShareOf, ...]
    waiting: int
    running: int
    fair_share: float
    oldest: Moment | None  # when the job that waits longest was submitted
    spent: int
    usable: bool = True


@value
class Queues(Message):
    """Those the asker's project may use, and the ones they share a cohort with."""

    serial: int
    queues: tuple[Queue, ...]
    cohorts: tuple[CohortSpec, ...]
    priorities: tuple[PriorityClass, ...]


@value
class ListQueues(Message):
    project: Name


@value
class ShowQueue(Message):
    project: Name
    queue: QueueName


@value
class Scenario(Message):
    """What might be: other quotas, more or fewer nodes like one that is there, a job like this one."""

    queues: Annotated[tuple[QueueSpec, ...], Items(most=1000)] = ()
    cohorts: Annotated[tuple[CohortSpec, ...], Items(most=1000)] = ()
    more_nodes: Annotated[int, Range(least=-10_000, most=10_000)] = 0
    like: Annotated[str, Text(longest=200)] = ""  # the node that more of are added or taken away
    resources: Resources | None = None
    tasks: Annotated[int, Range(least=1, most=10_000)] = 1
    queue: NameOrNone = ""
    project: NameOrNone = ""  # whose job it is; without it, that of the project with the most jobs in its queue
    seconds: Seconds = 0


@value
class Simulate(Message):
    """Plays `days` of the recorded past against the scenario and against how it was; or, with `now`, the present on."""

    scenario: Scenario
    days: Annotated[int, Range(least=1, most=90)] = 14
    now: bool = False


@value
class Outcome(Message):
    """Of one queue over a replay: times in seconds."""

    queue: QueueName
    jobs: int
    mean_wait: float
    p90_wait: float
    mean_turnaround: float
    preemptions: int
    gpu_use: float  # part of the cards that were there, 0 to 1
    cpu_use: float


@value
class Simulation(Message):
    """As it is and as it would be. `start` is when the scenario's own job would begin, where it has one."""

    before: tuple[Outcome, ...]
    after: tuple[Outcome, ...]
    start: Moment | None = None
    remarks: tuple[Line, ...] = ()


READ: Final = Permission(name="queue.read", group=Group.READ)
APPLY: Final = Permission(name="queue.apply", group=Group.OPERATE)
SIMULATE: Final = Permission(name="queue.simulate", group=Group.OPERATE)
READ_ALL: Final = Permission(name="queue.read-all", group=Group.OPERATE)

APPLY_QUEUES: Final = Operation(
    name="queue.apply",
    summary="Set all queues, cohorts and priority classes.",
    method="PUT",
    path="platform/queues",
    request=ApplyQueues,
    result=Applied,
    permission=APPLY,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_ALL_QUEUES: Final = Operation(
    name="queue.list-all",
    summary="Every queue with its shares.",
    method="GET",
    path="platform/queues",
    request=Nothing,
    result=Queues,
    permission=READ_ALL,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
LIST_QUEUES: Final = Operation(
    name="queue.list",
    summary="The queues a project may use, with their shares.",
    method="GET",
    path="projects/{project}/queues",
    request=ListQueues,
    result=Queues,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_QUEUE: Final = Operation(
    name="queue.show",
    summary="One queue: owed, used, borrowed, lent, waiting.",
    method="GET",
    path="projects/{project}/queues/{queue}",
    request=ShowQueue,
    result=Queue,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SIMULATE_QUEUES: Final = Operation(
    name="queue.simulate",
    summary="What other quotas, more nodes or one more job would do.",
    method="POST",
    path="platform/queue-simulations",
    request=Simulate,
    result=Simulation,
    permission=SIMULATE,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
OPERATIONS: Final = (
    APPLY_QUEUES,
    LIST_ALL_QUEUES,
    LIST_QUEUES,
    SHOW_QUEUE,
    SIMULATE_QUEUES,
)
