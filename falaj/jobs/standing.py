"""How things stand, read from the database: queues, hosts, who runs where and who waits."""

import threading
import time
from dataclasses import replace
from typing import Final

import msgspec

from falaj.base.clock import DAY, Clock, Moment
from falaj.database.work import Database, UnitOfWork
from falaj.jobs import documents
from falaj.jobs.documents import SHIPPED, Document
from falaj.jobs.orders import read_order
from falaj.jobs.scheduler.facts import Facts, Past
from falaj.jobs.scheduler.values import Job, Node, Running, Seat
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import jobs as store
from falaj.jobs.store import metering
from falaj.jobs.store import nodes as node_store
from falaj.jobs.store import queues as queue_store
from falaj.jobs.store.tables import Found

BUDGET_SPAN: Final = 30 * DAY
_FRESH: Final = 0.2  # seconds


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


def read_facts(work: UnitOfWork, now: Moment) -> Facts:
    """One consistent reading, as a controller that starts anew would make it."""
    queues, cohorts = documents.scheduled(present_document(work), metering.spent_by_queue(work, Moment(now - BUDGET_SPAN)))
    going = {row.job: row for row in attempt_store.going(work)}
    waiting, running = [], []
    for row in store.live(work):
        attempt = going.get(row.id)
        if attempt is None:
            waiting.append(job_of(row))
            continue
        running.append(
            Running(
                job=job_of(row),
                placement=msgspec.json.decode(attempt.seats, type=tuple[Seat, ...]),
                started=Moment(attempt.started or attempt.planned),
                checkpointed=Moment(row.checkpointed or 0),
                stopping=None if attempt.stop_by is None else Moment(attempt.stop_by),
            )
        )
    return Facts(
        nodes=tuple(node_of(row) for row in node_store.every(work) if row.lost is None),
        queues=tuple(queues),
        cohorts=tuple(cohorts),
        past=tuple(
            Past(queue=row.queue, used={row.resource: round(row.amount)}, at=Moment(row.at)) for row in queue_store.past(work)
        ),
        waiting=tuple(waiting),
        running=tuple(running),
    )


class Standing:
    """How things stood a moment ago, for questions that need not be answered from this very moment. Thread-safe.

    Reading it may take long where many wait, so it is read again no sooner than after ten times as long as that took.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._facts = Facts()
        self._until = 0.0

    def facts(self) -> Facts:
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                now = self._clock.now()
                self._facts = self._database.read(lambda work: read_facts(work, now))
                ended = time.monotonic()
                self._until = ended + max(_FRESH, 10 * (ended - began))
            return self._facts
