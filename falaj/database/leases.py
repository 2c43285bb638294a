"""Leases: at most one holder at a time, and a fencing number that tells a late former holder from the present one."""

from sqlalchemy import BigInteger, Column, Integer, String, Table, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork, metadata

leases = Table(
    "database_leases",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("holder", String(100), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("expires", BigInteger, nullable=False),
)


def acquire(work: UnitOfWork, name: str, holder: str, *, now: Moment, duration: int) -> int | None:
    """Take or renew the lease; the fence if it is ours, None if another holds it. The fence grows when the holder changes."""
    if work.execute(select(leases.c.name).where(leases.c.name == name)).first() is None:
        try:
            with work.connection.begin_nested():
                work.execute(insert(leases).values(name=name, holder=holder, fence=1, expires=now + duration))
        except IntegrityError:
            return None  # another process made it between our look and our insert, so it holds it
        return 1
    row = work.execute(
        update(leases)
        .where(leases.c.name == name, or_(leases.c.holder == holder, leases.c.expires < now))
        .values(holder=holder, expires=now + duration, fence=leases.c.fence + (leases.c.holder != holder).cast(Integer))
        .returning(leases.c.fence)
    ).first()
    return None if row is None else int(row.fence)


def release(work: UnitOfWork, name: str, holder: str) -> None:
    """Let go early, so that the next holder need not wait for the end of the term."""
    work.execute(update(leases).where(leases.c.name == name, leases.c.holder == holder).values(expires=0))
