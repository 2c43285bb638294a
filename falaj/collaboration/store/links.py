"""Share links. `page` is the address below the project's own."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Row, String, Table, Text, delete, insert, or_, select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork, metadata

links = Table(
    "collaboration_links",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("page", Text, nullable=False),
    Column("title", String(200), nullable=False),
    Column("made_by", String(32), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Index("collaboration_links_by_maker", "project", "made_by", "id"),
)


def add_link(work: UnitOfWork, row: dict[str, Any]) -> None:
    work.execute(insert(links).values(row))


def live_link(work: UnitOfWork, project: str, id: str, now: Moment) -> Row[Any] | None:
    alive = or_(links.c.expires.is_(None), links.c.expires > now)
    return work.execute(select(links).where(links.c.project == project, links.c.id == id, alive)).first()


def links_of(work: UnitOfWork, project: str, maker: str, *, now: Moment, before: str, limit: int) -> Sequence[Row[Any]]:
    """Those that still lead somewhere, newest first."""
    alive = or_(links.c.expires.is_(None), links.c.expires > now)
    found = select(links).where(links.c.project == project, links.c.made_by == maker, alive)
    if before:
        found = found.where(links.c.id < before)
    return work.execute(found.order_by(links.c.id.desc()).limit(limit)).all()


def remove_link(work: UnitOfWork, id: str) -> None:
    work.execute(delete(links).where(links.c.id == id))
