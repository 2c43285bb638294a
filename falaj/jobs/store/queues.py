"""SQL of the queue documents, and of past use by queue."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import desc, select
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store import news
from falaj.jobs.store.tables import Found, past_use, queue_documents

_NEWEST: Final = select(queue_documents).order_by(desc(queue_documents.c.serial)).limit(1)


def newest(work: UnitOfWork) -> Found | None:
    return work.execute(_NEWEST).first()


def add(work: UnitOfWork, *, serial: int, document: str, by: str, now: Moment) -> bool:
    """False where somebody else took that serial. The controller hears of it."""
    row = {"serial": serial, "document": document, "applied": int(now), "applied_by": by}
    if not insert_or_skip(work, queue_documents, row):
        return False
    news.say(work, news.QUEUES, now)
    return True


def history(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Newest first."""
    return work.execute(select(queue_documents).order_by(desc(queue_documents.c.serial)).limit(limit)).all()


def _upsert(module: Any) -> Any:
    row = module.insert(past_use)
    told = {"amount": row.excluded.amount, "at": row.excluded.at}
    return row.on_conflict_do_update(index_elements=list(past_use.primary_key), set_=told)


_REMEMBER: Final = Prepared({"sqlite": _upsert(sqlite), "postgresql": _upsert(postgresql)})


def past(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(past_use).order_by(*past_use.primary_key)).all()


def remember(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """`queue`, `project`, `user`, `resource`, and the `amount` decayed to `at`."""
    _REMEMBER.run_many(work, rows)
