"""SQL of jobs: how they come in, how they are found, and how the controller moves them on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, exists, func, insert, or_, select, update

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store import news
from falaj.jobs.store.tables import Found, attempts, jobs

# What a new job is unless its row says otherwise.
_NEW: Final[Mapping[str, Any]] = {
    "state": "waiting",
    "run": "",
    "wanted": "",
    "attempt": "",
    "attempts": 0,
    "retries": 0,
    "failures": 0,
    "losses": 0,
    "kin": "",
    "not_before": 0,
    "started": None,
    "ended": None,
    "cause": "",
    "code": None,
    "words": "",
    "served": 0,
    "checkpointed": None,
    "progress": 0.0,
}
_ADD: Final = Prepared(insert(jobs))
LIVE_STATES: Final = ("waiting", "starting", "running", "stopping")
OVER_STATES: Final = ("done", "failed", "cancelled")
_DIGITS_SHOWN: Final = 8  # of an id, in lists


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]], now: Moment) -> None:
    """New jobs, of which the controller hears. What a row leaves out is as it is for one that nobody has tried yet."""
    _ADD.run_many(work, [{**_NEW, **row} for row in rows])
    news.add(work, news.SUBMITTED, [row["id"] for row in rows], now)


def find(work: UnitOfWork, project: str, id: str) -> Found | None:
    return work.execute(select(jobs).where(jobs.c.project == project, jobs.c.id == id)).first()


def find_by_end(work: UnitOfWork, project: str, end: str) -> Sequence[Found]:
    """Newest first, at most two: the job whose id ends so, and another where the end does not tell them apart.

    Lists show the last digits, of which people copy some: where no id ends so, those that have them there are found."""
    if len(end) == 32:
        found = find(work, project, end)
        return [] if found is None else [found]
    mine = select(jobs).where(jobs.c.project == project).order_by(jobs.c.id.desc()).limit(2)
    ending = work.execute(mine.where(jobs.c.id.endswith(end, autoescape=True))).all()
    if ending or len(end) >= _DIGITS_SHOWN:
        return ending
    last = func.substr(jobs.c.id, 33 - _DIGITS_SHOWN)
    return work.execute(mine.where(last.contains(end, autoescape=True))).all()


def of_run(work: UnitOfWork, project: str, run: str) -> Sequence[str]:
    """The ids of the jobs that wrote to a run, oldest first."""
    mine = select(jobs.c.id).where(jobs.c.project == project, jobs.c.run == run)
    return work.execute(mine.order_by(jobs.c.id)).scalars().all()


def page(
    work: UnitOfWork, project: str, *, states: Sequence[str] = (), queue: str = "", before: str = "", limit: int
) -> Sequence[Found]:
    """Newest first; `before` is the last id of the page before."""
    mine = select(jobs).where(jobs.c.project == project)
    if states:
        mine = mine.where(jobs.c.state.in_(states))
    if queue:
        mine = mine.where(jobs.c.queue == queue)
    if before:
        mine = mine.where(jobs.c.id < before)
    return work.execute(mine.order_by(jobs.c.id.desc()).limit(limit)).all()


def with_ids(work: UnitOfWork, ids: Iterable[str]) -> Sequence[Found]:
    return work.execute(select(jobs).where(jobs.c.id.in_(sorted(set(ids))))).all()


def endings(work: UnitOfWork, ids: Sequence[str]) -> list[Found]:
    """Of those that are over: `id`, `state` and when they `ended`."""
    over = select(jobs.c.id, jobs.c.state, jobs.c.ended).where(jobs.c.ended.is_not(None))
    return [row for part in _parts(ids) for row in work.execute(over.where(jobs.c.id.in_(part)))]


def with_something_to_repeat(work: UnitOfWork) -> list[str]:
    """The specs of live jobs that go on from the checkpoints of others."""
    says, none = jobs.c.spec.contains('"continues":'), jobs.c.spec.contains('"continues":[]')
    return list(work.execute(select(jobs.c.spec).where(jobs.c.ended.is_(None), says, ~none)).scalars())


def counts_by_queue(work: UnitOfWork) -> Sequence[Found]:
    """Of live jobs, by queue and state: how many, and when the oldest of them was submitted."""
    counted = select(jobs.c.queue, jobs.c.state, func.count().label("jobs"), func.min(jobs.c.submitted).label("oldest"))
    return work.execute(counted.where(jobs.c.ended.is_(None)).group_by(jobs.c.queue, jobs.c.state)).all()


def started_in_time(work: UnitOfWork, priority: str, within: int, since: Moment, now: Moment) -> tuple[int, int]:
    """Of the jobs of a class that came since then: how many were to have started by now, and how many did within so long. One
    that was called off before is neither."""
    due = jobs.c.submitted + within
    began = exists().where(attempts.c.job == jobs.c.id, attempts.c.started <= due)
    counted = select(func.count()).select_from(jobs).where(jobs.c.priority == priority, jobs.c.submitted >= since)
    met = work.execute(counted.where(began)).scalar_one()
    late = or_(jobs.c.ended.is_(None), jobs.c.ended > due)
    missed = work.execute(counted.where(~began, due < now, late)).scalar_one()
    return met + missed, met


def count_live(work: UnitOfWork, project: str, *, priority: str = "") -> int:
    mine = select(func.count()).select_from(jobs).where(jobs.c.project == project, jobs.c.ended.is_(None))
    return int(work.execute(mine.where(jobs.c.priority == priority) if priority else mine).scalar_one())


def is_queue_used(work: UnitOfWork, queue: str) -> bool:
    live = select(jobs.c.id).where(jobs.c.queue == queue, jobs.c.state.in_(LIVE_STATES))
    return work.execute(live.limit(1)).first() is not None


# What a job, or somebody about it, says


def want_cancelled(work: UnitOfWork, id: str, now: Moment) -> bool:
    """False where it is over, or somebody asked before. The controller ends it."""
    unasked = (jobs.c.id == id, jobs.c.ended.is_(None), jobs.c.wanted == "")
    if work.execute(update(jobs).where(*unasked).values(wanted="cancelled")).rowcount == 0:
        return False
    news.add(work, news.CANCELLED, [id], now)
    return True


def press(work: UnitOfWork, id: str, now: Moment) -> None:
    """Somebody asks again for what was cancelled to end."""
    news.add(work, news.CANCELLED, [id], now)


def report(work: UnitOfWork, id: str, *, progress: float | None, checkpoint: bool, now: Moment) -> None:
    changed: dict[str, Any] = {} if progress is None else {"progress": progress}
    if checkpoint:
        changed["checkpointed"] = now
        news.add(work, news.CHECKPOINT, [id], now)
    if changed:
        work.execute(update(jobs).where(jobs.c.id == id, jobs.c.ended.is_(None)).values(changed))


# For the controller

_TOLD: Final = (
    *("id", "project", "name", "state", "queue", "zone", "order", "run", "submitted", "submitted_by", "token", "wanted"),
    "attempt",
    *("attempts", "retries", "failures", "losses", "kin", "not_before", "started", "served", "checkpointed"),
)
_TOLD_COLUMNS: Final = tuple(jobs.c[name] for name in _TOLD)


def live(work: UnitOfWork, project: str = "") -> Sequence[Found]:
    """What a controller that starts anew must know of every job that is not over, oldest first; no specs."""
    mine: list[ColumnElement[bool]] = [jobs.c.ended.is_(None)]
    if project:
        mine.append(jobs.c.project == project)
    return work.execute(select(*_TOLD_COLUMNS).where(*mine).order_by(jobs.c.submitted, jobs.c.id)).all()


def told(work: UnitOfWork, ids: Sequence[str]) -> Sequence[Found]:
    """The same of some jobs, over or not."""
    columns = select(*_TOLD_COLUMNS, jobs.c.ended)
    return [row for part in _parts(ids) for row in work.execute(columns.where(jobs.c.id.in_(part)))]


_STARTABLE: Final = (*("id", "project", "name", "zone", "spec", "run", "submitted_by", "token"),)


def to_start(work: UnitOfWork, ids: Sequence[str]) -> dict[str, Found]:
    """What starting needs."""
    columns = select(*(jobs.c[name] for name in _STARTABLE))
    return {row.id: row for part in _parts(ids) for row in work.execute(columns.where(jobs.c.id.in_(part)))}


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """Few enough at a time for either engine to take them as parameters."""
    return (ids[start : start + 500] for start in range(0, len(ids), 500))


# Every move names the attempt that the job must be at: what a late one wants finds no row.
_AT: Final = (jobs.c.id == bindparam("job"), jobs.c.attempt == bindparam("at"))


def _move(*names: str) -> Prepared:
    return Prepared(update(jobs).where(*_AT).values({name: bindparam(f"new_{name}") for name in names}))


_PLANNED: Final = _move("state", "attempt", "attempts", "started", "cause", "words")
_RUNNING: Final = _move("state", "started")
_STOPPING: Final = _move("state")
_AGAIN: Final = _move("state", "failures", "losses", "not_before", "served", "cause", "code", "words")
_OVER: Final = _move("state", "started", "ended", "failures", "losses", "served", "cause", "code", "words")


def plan(work: UnitOfWork, moves: Sequence[Mapping[str, Any]]) -> None:
    """A new attempt for each: `job`, `at` (the attempt before it), `new_attempt`, `new_attempts`. Why the one before it ended
    is with that one, and says nothing about the job any more."""
    begun = {"new_state": "starting", "new_started": None, "new_cause": "", "new_words": ""}
    _PLANNED.run_many(work, [{**move, **begun} for move in moves])


def run(work: UnitOfWork, moves: Sequence[Mapping[str, Any]]) -> None:
    _RUNNING.run_many(work, moves)


def stop(work: UnitOfWork, moves: Sequence[Mapping[str, Any]]) -> None:
    _STOPPING.run_many(work, [{**move, "new_state": "stopping"} for move in moves])


def wait_again(work: UnitOfWork, moves: Sequence[Mapping[str, Any]]) -> None:
    _AGAIN.run_many(work, [{**move, "new_state": "waiting"} for move in moves])


def end(work: UnitOfWork, moves: Sequence[Mapping[str, Any]]) -> None:
    _OVER.run_many(work, moves)


def last_durations(work: UnitOfWork, kins: Sequence[str], most: int) -> dict[str, list[int]]:
    """By kin, what the last ones took that were done, newest first."""
    place = func.row_number().over(partition_by=jobs.c.kin, order_by=jobs.c.ended.desc()).label("place")
    found: dict[str, list[int]] = {}
    for part in _parts(kins):
        done = select(jobs.c.kin, jobs.c.served, place).where(jobs.c.kin.in_(part), jobs.c.state == "done").subquery()
        newest = select(done.c.kin, done.c.served).where(done.c.place <= most).order_by(done.c.kin, done.c.place)
        for row in work.execute(newest):
            found.setdefault(row.kin, []).append(row.served)
    return found
