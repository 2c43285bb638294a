"""SQL of attempts: each try at running a job, from being planned to its kept log."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, or_, select, update

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, attempts, jobs

_NEW: Final[Mapping[str, Any]] = {
    "state": "planned",
    "started": None,
    "ended": None,
    "stop_by": None,
    "stop_for": "",
    "cause": "",
    "code": None,
    "words": "",
    "usage": "{}",
    "odd": "{}",
    "log": None,
}
_ADD: Final = Prepared(insert(attempts))
_THIS: Final = (attempts.c.id == bindparam("attempt"), attempts.c.ended.is_(None))
_STARTED: Final = Prepared(update(attempts).where(*_THIS).values(state=bindparam("state"), started=bindparam("started")))
_STOP: Final = Prepared(
    update(attempts).where(*_THIS).values(state="stopping", stop_by=bindparam("stop_by"), stop_for=bindparam("stop_for"))
)
_USE: Final = Prepared(update(attempts).where(*_THIS).values(usage=bindparam("usage")))
_ODD: Final = Prepared(update(attempts).where(*_THIS).values(odd=bindparam("odd")))
_ENDED: Final = ("started", "ended", "cause", "code", "words", "usage")
_END: Final = Prepared(update(attempts).where(*_THIS).values(state="ended", **{name: bindparam(name) for name in _ENDED}))


def of_job(work: UnitOfWork, project: str, job: str) -> Sequence[Found]:
    """Newest first."""
    mine = select(attempts).where(attempts.c.job == job, attempts.c.project == project)
    return work.execute(mine.order_by(attempts.c.number.desc())).all()


def find(work: UnitOfWork, project: str, job: str, number: int) -> Found | None:
    """The attempt of that number, or the last one for 0."""
    mine = select(attempts).where(attempts.c.job == job, attempts.c.project == project)
    if number:
        mine = mine.where(attempts.c.number == number)
    return work.execute(mine.order_by(attempts.c.number.desc()).limit(1)).first()


def took(work: UnitOfWork, project: str, jobs: Collection[str]) -> dict[str, int]:
    """How long the tries of each of these jobs ran that are over, all together; waiting is none of it."""
    lasted = func.sum(attempts.c.ended - attempts.c.started).label("length")
    mine = select(attempts.c.job, lasted).where(attempts.c.project == project, attempts.c.job.in_(sorted(jobs)))
    over = mine.where(attempts.c.started.is_not(None), attempts.c.ended.is_not(None)).group_by(attempts.c.job)
    return {row.job: int(row.length) for row in work.execute(over)}


def with_ids(work: UnitOfWork, ids: Sequence[str]) -> dict[str, Found]:
    return {row.id: row for row in work.execute(select(attempts).where(attempts.c.id.in_(sorted(ids))))}


def going(work: UnitOfWork) -> Sequence[Found]:
    """Every one that is not over."""
    # The log of one that goes on is not kept yet: said here, because that is what the index knows.
    mine = select(attempts).where(attempts.c.log.is_(None), attempts.c.ended.is_(None))
    return work.execute(mine.order_by(attempts.c.id)).all()


_AT: Final = (
    select(attempts)
    .join(jobs, jobs.c.attempt == attempts.c.id)
    .where(attempts.c.log.is_(None), attempts.c.ended.is_(None), attempts.c.engine == bindparam("engine"))
    .order_by(attempts.c.id)
)


def going_at(work: UnitOfWork, engine: str) -> Sequence[Found]:
    """Every one that is its job's present one and that an engine is to run, or runs."""
    return work.execute(_AT, {"engine": engine}).all()


# For the controller


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD.run_many(work, [{**_NEW, **row} for row in rows])


def start(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """`attempt`, `state` (one that was told to stop stays at that) and `started`."""
    _STARTED.run_many(work, rows)


def stop(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _STOP.run_many(work, rows)


def use(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """`attempt` and its `usage` so far."""
    _USE.run_many(work, rows)


def flag(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """`attempt` and what is `odd` about it now."""
    _ODD.run_many(work, rows)


def end(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _END.run_many(work, rows)


# For who keeps logs


_UNLOGGED: Final = (
    select(attempts.c.id, attempts.c.job, attempts.c.project, attempts.c.engine, attempts.c.ended, jobs.c.zone)
    .join(jobs, jobs.c.id == attempts.c.job)
    .where(
        attempts.c.log.is_(None),
        attempts.c.ended.is_not(None),
        attempts.c.id > bindparam("after"),
        or_(attempts.c.engine == bindparam("engine"), bindparam("engine") == ""),
    )
    .order_by(attempts.c.id)
    .limit(bindparam("most"))
)
_LOGGED: Final = Prepared(update(attempts).where(attempts.c.id == bindparam("attempt")).values(log=bindparam("log")))


def unlogged(work: UnitOfWork, after: str, most: int, engine: str = "") -> Sequence[Found]:
    """Ended ones whose log is still with their engine; with that one, where it is named."""
    return work.execute(_UNLOGGED, {"after": after, "most": most, "engine": engine}).all()


def keep_logs(work: UnitOfWork, logs: Mapping[str, str]) -> None:
    _LOGGED.run_many(work, [{"attempt": attempt, "log": blob} for attempt, blob in logs.items()])


def of_jobs(work: UnitOfWork, jobs: Sequence[str]) -> Sequence[Found]:
    """Of every one of these jobs, oldest first. The caller has found them in their project."""
    return work.execute(select(attempts).where(attempts.c.job.in_(jobs)).order_by(attempts.c.job, attempts.c.number)).all()
