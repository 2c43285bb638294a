"""SQL of the batches of sampled calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, logs


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(logs).values(row))


def batches_until(work: UnitOfWork, endpoint: str, until: str, limit: int) -> Sequence[Found]:
    """Newest first, from the batch `until` on, or from the newest."""
    mine = select(logs).where(logs.c.endpoint == endpoint)
    if until:
        mine = mine.where(logs.c.id <= until)
    return work.execute(mine.order_by(logs.c.id.desc()).limit(limit)).all()


def beyond(work: UnitOfWork, endpoint: str, kept: int, limit: int) -> Sequence[Found]:
    """The oldest batches of an endpoint, where there are more than so many."""
    mine = select(logs).where(logs.c.endpoint == endpoint).order_by(logs.c.id.desc())
    return work.execute(mine.offset(kept).limit(limit)).all()


def older_than(work: UnitOfWork, moment: Moment, limit: int) -> Sequence[Found]:
    return work.execute(select(logs).where(logs.c.at < moment).order_by(logs.c.at).limit(limit)).all()


def forget(work: UnitOfWork, ids: Sequence[str]) -> None:
    work.execute(delete(logs).where(logs.c.id.in_(ids)))


def forget_endpoint(work: UnitOfWork, endpoint: str) -> Sequence[str]:
    """The ids of the batches it had."""
    ids = work.execute(select(logs.c.id).where(logs.c.endpoint == endpoint)).scalars().all()
    work.execute(delete(logs).where(logs.c.endpoint == endpoint))
    return ids
