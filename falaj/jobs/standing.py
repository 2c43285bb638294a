"""How things stand, read from the database: queues, hosts, who runs where and who waits, and what happened of late."""

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from falaj.base.clock import DAY, Clock, Moment
from falaj.database.work import Database, UnitOfWork
from falaj.jobs import documents
from falaj.jobs.documents import SHIPPED, Document
from falaj.jobs.learning import Durations
from falaj.jobs.orders import read_order
from falaj.jobs.scheduler.facts import UNKNOWN, Facts, Past, Recent, Took
from falaj.jobs.scheduler.values import Job, Node, Running, Seat
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import engines as engine_store
from falaj.jobs.store import history, metering
from falaj.jobs.store import jobs as store
from falaj.jobs.store import nodes as node_store
from falaj.jobs.store import queues as queue_store
from falaj.jobs.store.tables import Found

BUDGET_SPAN: Final = 30 * DAY
RECENT: Final = 1000  # jobs that came last, and as many that ended last
_FRESH: Final = 0.2  # seconds
_RECENT_FRESH: Final = 30.0


def present_document(work: UnitOfWork) -> Document:
    found = queue_store.newest(work)
    return SHIPPED if found is None else documents.read(found.document)


def node_of(row: Found) -> Node:
    told = msgspec.json.decode(row.facts, type=Node)
    return replace(told, open=False) if row.draining else told


def job_of(row: Found) -> Job:
    return read_order(
        row.order,
        id=row.id,
        project=row.project,
        user=row.submitted_by,
        queue=row.queue,
        submitted=Moment(row.submitted),
        served=row.served,
        not_before=Moment(row.not_before),
    )


def read_facts(work: UnitOfWork, now: Moment, half_life: int, durations: Durations, recent: Recent) -> Facts:
    """One consistent reading, as a controller that starts anew would make it."""
    queues, cohorts = documents.scheduled(present_document(work), metering.spent_by_queue(work, Moment(now - BUDGET_SPAN)))
    going = {row.job: row for row in attempt_store.going(work)}
    waiting, running, rows = [], [], store.live(work)
    durations.read(work, [row.kin for row in rows])
    for row in rows:
        attempt, job = going.get(row.id), expected_job(row, durations)
        if attempt is None:
            waiting.append(job)
            continue
        running.append(
            Running(
                job=job,
                placement=msgspec.json.decode(attempt.seats, type=tuple[Seat, ...]),
                started=Moment(attempt.started or attempt.planned),
                checkpointed=Moment(row.checkpointed or 0),
                stopping=None if attempt.stop_by is None else Moment(attempt.stop_by),
            )
        )
    kin = {**recent.kin, **{row.id: row.kin for row in rows if row.kin}}
    return Facts(
        nodes=tuple(_answering(work)),
        queues=tuple(queues),
        cohorts=tuple(cohorts),
        past=tuple(_past(work, now, half_life, {queue.name for queue in queues})),
        waiting=tuple(waiting),
        running=tuple(running),
        recent=replace(recent, kin=kin, learned={one: last for one in set(kin.values()) if (last := durations.last(one))}),
    )


def _answering(work: UnitOfWork) -> Iterable[Node]:
    """Nothing starts on one whose engine does not answer."""
    silent = engine_store.silent(work)
    for row in node_store.every(work):
        if row.lost is None:
            yield replace(node_of(row), open=False) if row.engine in silent else node_of(row)


def expected_job(row: Found, durations: Durations) -> Job:
    """As the controller tells the scheduler of it: what nobody declared is expected as it was for others like it."""
    job = job_of(row)
    learned = 0 if job.duration else durations.expected(row.kin)
    return replace(job, duration=learned) if learned else job


def _past(work: UnitOfWork, now: Moment, half_life: int, known: set[str]) -> Iterable[Past]:
    """What fairness remembers, all decayed to now."""
    by_account: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in queue_store.past(work):
        if row.queue in known:
            left = row.amount * 0.5 ** (max(now - row.at, 0) / half_life)
            by_account.setdefault((row.queue, row.project, row.user), {})[row.resource] = int(left)
    for (queue, project, user), used in by_account.items():
        yield Past(queue=queue, used=used, at=now, project=project, user=user)


def read_recent(work: UnitOfWork) -> Recent:
    """The last jobs that came and that ended."""
    came = history.last_submitted(work, RECENT)
    return Recent(
        since=Moment(came[0].submitted) if came else Moment(0),
        came=tuple(replace(job_of(row), served=0, not_before=Moment(0)) for row in came),
        took=tuple(_took(row) for row in history.last_ended(work, RECENT)),
        kin={row.id: row.kin for row in came if row.kin},
        learned={},
    )


def _took(row: Found) -> Took:
    told = msgspec.json.decode(row.order)
    # One that failed or was called off held its seats all the same.
    took = row.served if row.state == "done" else row.ended - row.started
    return Took(queue=row.queue, cards=told["count"] * told["shape"]["gpus"], expected=told["duration"], took=max(1, took))


class Standing:
    """How things stood a moment ago, for questions that need not be answered from this very moment. Thread-safe.

    Reading it may take long where many wait, so it is read again no sooner than after ten times as long as that took. What
    happened of late changes slowly and is read less often.
    """

    def __init__(self, database: Database, clock: Clock, half_life: int) -> None:
        self._database = database
        self._clock = clock
        self._half_life = half_life
        self._lock = threading.Lock()
        self._facts = Facts()
        self._until = 0.0
        self._durations = Durations()
        self._recent = UNKNOWN
        self._recent_until = 0.0

    def facts(self) -> Facts:
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._facts = self._database.read(lambda work: self._read(work, began))
                ended = time.monotonic()
                self._until = ended + max(_FRESH, 10 * (ended - began))
            return self._facts

    def _read(self, work: UnitOfWork, began: float) -> Facts:
        if began >= self._recent_until:
            self._recent, self._durations = read_recent(work), Durations()
            self._durations.read(work, list(self._recent.kin.values()))
            self._recent_until = began + _RECENT_FRESH
        return read_facts(work, self._clock.now(), self._half_life, self._durations, self._recent)
