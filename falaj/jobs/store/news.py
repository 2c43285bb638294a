"""SQL of what the controller has not heard of yet. Each word is a row of its own, so none is lost in another's place."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete, insert, select

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import news

SUBMITTED, CANCELLED, CHECKPOINT, NODES, QUEUES = "submitted", "cancelled", "checkpoint", "nodes", "queues"
_ADD: Final = Prepared(insert(news))
_FIRST: Final = Prepared(select(news.c.id, news.c.kind, news.c.job).order_by(news.c.id).limit(bindparam("most")))
_REMOVE: Final = Prepared(delete(news).where(news.c.id == bindparam("heard")))


def add(work: UnitOfWork, kind: str, jobs: Sequence[str], now: Moment) -> None:
    _ADD.run_many(work, [{"id": new_id(now), "kind": kind, "job": job} for job in jobs])


def say(work: UnitOfWork, kind: str, now: Moment) -> None:
    """Something that is about no job."""
    add(work, kind, [""], now)


def first(work: UnitOfWork, most: int) -> list[tuple[str, str, str]]:
    """Id, kind and job of the oldest ones."""
    return _FIRST.all(work, most=most)


def remove(work: UnitOfWork, ids: Sequence[str]) -> None:
    _REMOVE.run_many(work, [{"heard": id} for id in ids])
