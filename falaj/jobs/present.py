"""What a controller knows of everything that is not over, in memory: jobs, their attempts, and who holds what.

It is changed together with the scheduler's memory and with the rows of the turn under way; where that turn cannot be
written, all of it is thrown away and read again.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec

from falaj.base.clock import Moment
from falaj.jobs.engines.engine import Used
from falaj.jobs.orders import read_order
from falaj.jobs.retrying import EndCause, StopFor
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Node, Placement, Seat, gpu_of
from falaj.jobs.store.tables import Found

NOTHING = Used()


class LiveAttempt:
    """One try that has not ended. `seen` and `acted` are on the steady clock, which does not jump."""

    __slots__ = (
        *("id", "job", "number", "engine", "seats", "token", "planned", "started", "stop_by", "stop_for", "resize_to"),
        *("used", "seen", "acted", "trouble", "inherited", "stop_told", "share", "counted", "sampled", "sampled_at", "busy_at"),
        "odd",
    )

    def __init__(
        self, id: str, job: "LiveJob", number: int, engine: str, seats: Placement, token: str, planned: Moment
    ) -> None:
        self.id = id
        self.job = job
        self.number = number
        self.engine = engine
        self.seats = seats
        self.token = token
        self.planned = planned
        self.started: Moment | None = None
        self.stop_by: Moment | None = None
        self.stop_for: StopFor = ""
        self.resize_to: Placement = ()
        self.used = NOTHING
        self.seen = 0  # when its engine last spoke of it
        self.acted: int | None = None  # when its engine took it on
        self.trouble: tuple[EndCause, str] | None = None  # cause and words, where it can never be started
        self.inherited = False  # planned by another controller, and perhaps never started
        self.stop_told: int | None = None  # when its engine took that in
        self.share: Mapping[str, int] = {}  # what it takes of each resource
        self.counted = NOTHING  # what of its use has been counted for its nodes
        self.sampled = NOTHING
        self.sampled_at = 0
        self.busy_at = 0  # when its cards last did something
        self.odd: Mapping[str, str] = {}  # what stands out about it now, by kind

    @property
    def nodes(self) -> Iterator[str]:
        return (seat.node for seat in self.seats)


class LiveJob:
    """A job that is not over. `at` is the id of its present or last attempt; `order` is what the scheduler was told."""

    __slots__ = (
        *("id", "project", "name", "user", "queue", "zone", "token", "run", "kin", "order", "retries", "failures", "losses"),
        *("wanted", "at", "attempts", "attempt", "served", "checkpointed"),
    )

    def __init__(self, row: Found, now: Moment, longest_wait: int) -> None:
        """Moments that lie ahead were written by a clock that was ahead; nothing waits for it to catch up."""
        self.id: str = row.id
        self.project: str = row.project
        self.name: str = row.name
        self.user: str = row.submitted_by
        self.queue: str = row.queue
        self.zone: str = row.zone
        self.token: str = row.token
        self.run: str = row.run
        self.kin: str = row.kin
        self.retries: int = row.retries
        self.failures: int = row.failures
        self.losses: int = row.losses
        self.wanted: str = row.wanted
        self.at: str = row.attempt
        self.attempts: int = row.attempts
        self.attempt: LiveAttempt | None = None
        self.served: int = row.served
        self.checkpointed: Moment | None = None if row.checkpointed is None else Moment(row.checkpointed)
        self.order: Job = read_order(
            row.order,
            id=row.id,
            project=row.project,
            user=row.submitted_by,
            queue=row.queue,
            submitted=Moment(min(row.submitted, now)),
            served=row.served,
            not_before=Moment(min(row.not_before, now + longest_wait)),
        )

    def again(self, *, served: int, not_before: Moment) -> Job:
        """What to tell the scheduler when it is to be tried again."""
        self.served = served
        self.order = replace(self.order, served=served, not_before=not_before)
        return self.order


class Present:
    """Everything that lives. `held_on` is what is taken of each node, in thousandths of cores and of cards; `cards_held` what
    is of each card."""

    def __init__(self) -> None:
        self.jobs: dict[str, LiveJob] = {}
        self.attempts: dict[str, LiveAttempt] = {}
        self.nodes: dict[str, Node] = {}
        self.engine_of: dict[str, str] = {}
        self.silent: dict[str, Moment] = {}  # engines that did not answer when it was read, and since when
        self.draining: dict[str, bool] = {}  # by node; true where what runs there is to stop as well
        self.held_on: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.cards_held: dict[tuple[str, int], int] = defaultdict(int)

    @property
    def waiting(self) -> int:
        return len(self.jobs) - len(self.attempts)

    def add(self, attempt: LiveAttempt) -> None:
        job = attempt.job
        self.attempts[attempt.id] = attempt
        job.attempt, job.at, job.attempts = attempt, attempt.id, attempt.number
        attempt.share = self._share(attempt)
        self._hold(attempt, 1)

    def remove(self, attempt: LiveAttempt) -> None:
        self._hold(attempt, -1)
        del self.attempts[attempt.id]
        attempt.job.attempt = None

    def _hold(self, attempt: LiveAttempt, sign: int) -> None:
        shape = attempt.job.order.shape
        cards = shape.gpus * shape.gpu_milli
        for seat in attempt.seats:
            held = self.held_on[seat.node]
            held[0] += sign * shape.cpu_milli
            held[1] += sign * cards
            for card in seat.cards:
                self.cards_held[seat.node, card] += sign * shape.gpu_milli

    def _share(self, attempt: LiveAttempt) -> dict[str, int]:
        shape, tasks = attempt.job.order.shape, len(attempt.seats)
        share = {CPU: shape.cpu_milli * tasks, MEMORY: shape.memory_mib * tasks}
        if shape.io:
            share[IO] = shape.io * tasks
        if shape.gpus:
            share[GPU] = shape.gpus * shape.gpu_milli * tasks
            for seat in attempt.seats:
                for model, part in self.models_at(attempt, seat).items():
                    share[gpu_of(model)] = share.get(gpu_of(model), 0) + part
        return share

    def models_at(self, attempt: LiveAttempt, seat: Seat) -> dict[str, int]:
        """Thousandths of cards of each model that a seat has."""
        shape, node = attempt.job.order.shape, self.nodes.get(seat.node)
        models: dict[str, int] = {}
        for card in seat.cards:
            model = node.cards[card] if node is not None and card < len(node.cards) else ""
            models[model] = models.get(model, 0) + shape.gpu_milli
        return models


def seats_written(seats: Placement) -> str:
    return msgspec.json.encode(seats).decode()


def seats_read(text: str) -> Placement:
    return msgspec.json.decode(text, type=tuple[Seat, ...])


def attempt_read(row: Found, job: LiveJob, now: Moment) -> LiveAttempt:
    """An attempt that another controller planned."""
    read = LiveAttempt(
        row.id,
        job,
        row.number,
        row.engine,
        seats_read(row.seats),
        row.token,
        Moment(row.planned),
    )
    read.started = None if row.started is None else Moment(min(row.started, now))
    read.stop_by = None if row.stop_by is None else Moment(row.stop_by)
    read.stop_for = row.stop_for
    read.inherited = row.started is None
    read.odd = msgspec.json.decode(row.odd, type=dict[str, str])
    return read
