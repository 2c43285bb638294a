"""What every engine can do, and the words it does it with.

An engine knows attempts by their id alone. Starting one twice starts it once; stopping, forgetting and looking can be repeated
at any time, by a controller that was just born. It decides nothing: where a task runs was decided before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.scheduler.values import Node, Seat, Shape

State = Literal["preparing", "running", "ended"]
# Why an attempt ended. What is retried, and how soon, goes by this word.
Cause = Literal[
    "done",  # it ended with 0
    "failed",  # it ended with another code, or by a signal of its own making
    "stopped",  # it was told to, and did within its grace or was killed after it
    "timeout",
    "memory",  # more than it asked for
    "disk",
    "environment",  # its environment could not be made
    "output",  # it ended with 0, and something that it was to write is not there or cannot be kept
    "lost",  # host, keeper or engine went away under it
]


@value
class Environment:
    """What a job runs in: the platform's own interpreter, one made from a lock file, or a container image."""

    lock: str = ""  # text of a requirements file, versions pinned
    image: str = ""


@value
class Limits:
    """Held whatever the job does. 0 for none."""

    seconds: int
    disk_mib: int = 10_240
    log_mib: int = 64
    processes: int = 4096


@value
class Launch:
    """One attempt of a job, ready to be started. `source` yields a tar of the job's files, or nothing where it has none.

    `variables` is what its processes see, the token and the secrets among them. Where it has several tasks each sees its
    rank, how many there are, and where the first listens. `hosts` are the ones it may reach besides the platform
    (`name:port`, or `*` for every one). `outputs` are kept with its run when it has ended well. `checkpoints` names the folder
    that outlives its tries, and after it those of jobs that it repeats, which it may take over; nothing where it has none.
    """

    attempt: str
    job: str
    project: str
    name: str
    command: tuple[str, ...]
    shape: Shape
    seats: tuple[Seat, ...]
    environment: Environment
    limits: Limits
    variables: Mapping[str, str]
    hosts: tuple[str, ...] = ()
    platform_url: str = ""
    source: Callable[[], Iterator[bytes]] | None = None
    private_network: bool = False  # the policy's word that traffic between its tasks needs no encryption
    zone: str = ""  # the one it may run in
    queue: str = ""
    priority: str = ""  # the name of its class
    grace: int = 30_000_000  # what it asked for to end in, should it be told to
    outputs: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


@value
class Used:
    """By all tasks of an attempt so far. Energy where it can be measured or estimated."""

    cpu_seconds: float = 0.0
    memory_mib_peak: int = 0
    memory_mib_seconds: float = 0.0
    gpu_seconds: float = 0.0  # of cards held, weighed by the part held
    gpu_busy_seconds: float = 0.0  # as the card says
    gpu_memory_mib: int = 0  # that it holds of its cards' memory now
    energy_joules: float = 0.0
    energy_measured: bool = False  # by the host's own meters; else it is an estimate
    disk_mib: int = 0


@value
class Seen:
    """What an engine knows of an attempt."""

    attempt: str
    state: State
    started: Moment | None = None  # when its command began
    ended: Moment | None = None
    cause: Cause | None = None
    code: int | None = None
    words: str = ""  # one line for people, where `code` does not say it all
    used: Used = Used()
    nodes: tuple[str, ...] = ()
    image: str = ""  # the id of the container image that it runs in, where the engine can tell


@value
class CardUse:
    """What a card says of itself: the part of the time that it computes, and its memory."""

    busy: float
    memory_mib: int
    memory_used_mib: int


@runtime_checkable
class MeasuresCards(Protocol):
    """What an engine can do besides, where its hosts say what their cards do."""

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        """By host, for each of its cards as `Node.cards` lists them, a moment ago; None for one that does not say. Does not
        wait for a driver."""


class Engine(Protocol):
    """Raises `Unavailable` where the engine cannot be reached; nothing is concluded about its attempts then."""

    name: str

    def nodes(self) -> Sequence[Node]:
        """The hosts it has now."""

    def start(self, launch: Launch) -> None:
        """Durable before it returns: whatever dies after, the attempt shows up in `look`."""

    def stop(self, attempt: str, grace: int) -> None:
        """Ask it to end (SIGTERM), and make it after `grace` microseconds. One never heard of will not be started later."""

    def look(self) -> Sequence[Seen]:
        """Every attempt it has not forgotten."""

    def log(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes of its log from `offset` on, and where the next ones begin. What was dropped of a flooded log is said in it."""

    def forget(self, attempt: str) -> None:
        """Remove whatever is left of one that ended."""

    def close(self) -> None:
        """Let go; attempts go on."""
