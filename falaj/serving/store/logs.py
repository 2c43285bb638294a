"""SQL of the batches of sampled calls."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, delete, func, insert, select, update

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


def older_than(work: UnitOfWork, moment: Moment, limit: int) -> Sequence[Found]:
    return work.execute(select(logs).where(logs.c.at < moment).order_by(logs.c.at).limit(limit)).all()


def oldest_of(work: UnitOfWork, endpoint: str, limit: int) -> Sequence[Found]:
    return work.execute(select(logs).where(logs.c.endpoint == endpoint).order_by(logs.c.id).limit(limit)).all()


def larger(work: UnitOfWork, most: int) -> Sequence[tuple[str, int]]:
    """Endpoints with more bytes of calls, and how many more."""
    held = func.sum(logs.c.size, type_=BigInteger).label("held")
    found = work.execute(select(logs.c.endpoint, held).group_by(logs.c.endpoint).having(held > most)).all()
    return [(row.endpoint, int(row.held) - most) for row in found]


def to_settle(work: UnitOfWork, before: Moment) -> Sequence[str]:
    """Endpoints with batches that were not gone through, from before this moment."""
    mine = select(logs.c.endpoint).where(~logs.c.settled, logs.c.at < before)
    return work.execute(mine.distinct().order_by(logs.c.endpoint)).scalars().all()


def not_settled(work: UnitOfWork, endpoint: str, before: Moment, limit: int) -> Sequence[Found]:
    """Oldest first."""
    mine = select(logs).where(~logs.c.settled, logs.c.endpoint == endpoint, logs.c.at < before)
    return work.execute(mine.order_by(logs.c.id).limit(limit)).all()


def settle(work: UnitOfWork, ids: Sequence[str]) -> None:
    """As they are."""
    work.execute(update(logs).where(logs.c.id.in_(ids)).values(settled=True))


def move(work: UnitOfWork, batch: str, **where: Any) -> bool:
    """To another blob; whether the batch is there still, and nobody moved it."""
    mine = (logs.c.id == batch, ~logs.c.settled)
    return work.execute(update(logs).where(*mine).values(settled=True, **where)).rowcount == 1


def forget(work: UnitOfWork, holders: Collection[str]) -> int:
    """All batches that lie in what is kept for these; how many bytes they had."""
    mine = logs.c.holder.in_(sorted(holders))
    size = work.execute(select(func.coalesce(func.sum(logs.c.size), 0)).where(mine)).scalar_one()
    work.execute(delete(logs).where(mine))
    return int(size)


def forget_endpoint(work: UnitOfWork, endpoint: str) -> Sequence[str]:
    """The holders of what it had."""
    mine = select(logs.c.holder).where(logs.c.endpoint == endpoint).distinct()
    holders = work.execute(mine.order_by(logs.c.holder)).scalars().all()
    work.execute(delete(logs).where(logs.c.endpoint == endpoint))
    return holders
