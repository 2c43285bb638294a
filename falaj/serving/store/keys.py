"""SQL of the long-lived keys of endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, keys


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(keys).values(row))


def find(work: UnitOfWork, project: str, id: str) -> Found | None:
    return work.execute(select(keys).where(keys.c.project == project, keys.c.id == id)).first()


def page(work: UnitOfWork, project: str, before: str, limit: int) -> Sequence[Found]:
    """Newest first."""
    mine = select(keys).where(keys.c.project == project)
    if before:
        mine = mine.where(keys.c.id < before)
    return work.execute(mine.order_by(keys.c.id.desc()).limit(limit)).all()


def count_good(work: UnitOfWork, project: str, now: Moment) -> int:
    good = select(func.count()).select_from(keys)
    good = good.where(keys.c.project == project, keys.c.expires > now, keys.c.revoked.is_(None))
    return int(work.execute(good).scalar_one())


def revoke(work: UnitOfWork, id: str, now: Moment) -> None:
    work.execute(update(keys).where(keys.c.id == id, keys.c.revoked.is_(None)).values(revoked=now))
