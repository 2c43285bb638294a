"""SQL of what happened to jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import insert, select

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, events

LONGEST_WORDS: Final = 2000
_ADD: Final = Prepared(insert(events))


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `event` makes them."""
    _ADD.run_many(work, rows)


def event(job: str, project: str, now: Moment, kind: str, words: str, attempt: int = 0) -> dict[str, Any]:
    return {
        "job": job,
        "id": new_id(now),
        "project": project,
        "at": int(now),
        "kind": kind,
        "words": words[:LONGEST_WORDS],
        "attempt": attempt,
    }


def page(work: UnitOfWork, project: str, job: str, after: str, limit: int) -> Sequence[Found]:
    """Oldest first; `after` is the last id of the page before."""
    mine = select(events).where(events.c.job == job, events.c.project == project, events.c.id > after)
    return work.execute(mine.order_by(events.c.id).limit(limit)).all()
