"""Starting anew: a new epoch, so that nobody who began before writes any more, and everything that lives read again."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.jobs import documents
from falaj.jobs.documents import Document
from falaj.jobs.learning import Durations
from falaj.jobs.metering import PastUse, decayed
from falaj.jobs.present import LiveJob, Present, attempt_read
from falaj.jobs.retrying import LONGEST_WAIT
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Cohort, Node, Queue, Rules, Running
from falaj.jobs.standing import BUDGET_SPAN, node_of, present_document
from falaj.jobs.store import attempts, controllers, engines, jobs, metering, nodes, queues
from falaj.jobs.store.tables import Found


@value
class Recovered:
    epoch: int
    present: Present
    scheduler: Scheduler
    durations: Durations
    past: PastUse
    queues: set[str]
    idle_seconds: dict[str, int]


def recover(database: Database, make: Callable[..., Scheduler], rules: Rules, now: Moment) -> Recovered:
    epoch = database.write(controllers.take_over)
    return database.read(lambda work: _read(work, epoch, make, rules, now))


def _read(work: UnitOfWork, epoch: int, make: Callable[..., Scheduler], rules: Rules, now: Moment) -> Recovered:
    present, durations = Present(), Durations()
    rows = jobs.live(work)
    durations.read(work, [row.kin for row in rows])
    for row in rows:
        present.jobs[row.id] = told_job(row, durations, now)
    _read_nodes(work, present)
    present.silent = engines.silent(work)
    document = present_document(work)
    queued, cohorts = scheduled(work, document, present, now)
    scheduler = make(rules, nodes=_open_nodes(present), queues=queued, cohorts=cohorts)
    past = {(row.queue, row.project, row.user, row.resource): (row.amount, row.at) for row in queues.past(work)}
    _remember(scheduler, past, {queue.name for queue in queued}, rules.half_life, now)
    for attempt_row in attempts.going(work):
        job = present.jobs.get(attempt_row.job)
        if job is not None and job.at == attempt_row.id:
            present.add(attempt_read(attempt_row, job, now))
    _tell(scheduler, present, now)
    return Recovered(
        epoch=epoch,
        present=present,
        scheduler=scheduler,
        durations=durations,
        past=past,
        queues={queue.name for queue in queued},
        idle_seconds={queue.name: queue.idle_gpu_seconds for queue in document.queues if queue.idle_gpu_seconds},
    )


def told_job(row: Found, durations: Durations, now: Moment) -> LiveJob:
    """What nobody declared is expected as it was for others like it."""
    job = LiveJob(row, now, LONGEST_WAIT)
    if not job.order.duration and (expected := durations.expected(job.kin)):
        job.order = replace(job.order, duration=expected)
    return job


def scheduled(work: UnitOfWork, document: Document, present: Present, now: Moment) -> tuple[list[Queue], list[Cohort]]:
    """Queues and cohorts as they are now. A queue that is gone while a job names it lets nothing start."""
    budgeted = any(queue.monthly_budget for queue in document.queues)
    spent = metering.spent_by_queue(work, Moment(now - BUDGET_SPAN)) if budgeted else {}
    found, cohorts = documents.scheduled(document, spent)
    known = list(found)
    gone = {job.queue for job in present.jobs.values()} - {queue.name for queue in known}
    return [*known, *(Queue(name=name, quotas={}, open=False) for name in sorted(gone))], list(cohorts)


def _remember(scheduler: Scheduler, past: PastUse, known: set[str], half_life: int, now: Moment) -> None:
    by_account: dict[tuple[str, str, str], dict[str, int]] = {}
    for (queue, project, user, resource), (amount, at) in past.items():
        if queue in known:
            by_account.setdefault((queue, project, user), {})[resource] = int(decayed(amount, at, now, half_life))
    for (queue, project, user), used in by_account.items():
        scheduler.remember(queue, used, now, project=project, user=user)


def _read_nodes(work: UnitOfWork, present: Present) -> None:
    for row in nodes.every(work):
        if row.lost is None:
            present.nodes[row.name] = node_of(row)
            present.engine_of[row.name] = row.engine
        if row.draining:
            present.draining[row.name] = bool(row.stopping)


def read_drains(work: UnitOfWork) -> dict[str, bool]:
    return {row.name: bool(row.stopping) for row in nodes.every(work) if row.draining}


def _open_nodes(present: Present) -> Iterable[Node]:
    """Closed until their engines speak: a node may have gone while nobody looked."""
    return [replace(node, open=False) for node in present.nodes.values()]


def _tell(scheduler: Scheduler, present: Present, now: Moment) -> None:
    for job in present.jobs.values():
        attempt = job.attempt
        if attempt is None:
            scheduler.submitted(job.order)
            continue
        running = Running(
            job=job.order,
            placement=attempt.seats,
            started=attempt.started or Moment(min(attempt.planned, now)),
            checkpointed=job.checkpointed or Moment(0),
            stopping=attempt.stop_by if attempt.stop_for else None,
        )
        scheduler.running(running)
