"""What is addressed to somebody, and whether it was read. About one comment or review there is one notice of a kind."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Row,
    String,
    Table,
    UniqueConstraint,
    delete,
    false,
    func,
    select,
    true,
    update,
)

from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata

notices = Table(
    "collaboration_notices",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("principal", String(32), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("thing_kind", String(20), nullable=False),
    Column("thing", String(32), nullable=False),
    Column("by", String(32), nullable=False),
    Column("about", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("read", Boolean, nullable=False),
    UniqueConstraint("about", "principal", "kind", name="collaboration_notices_once"),
    Index("collaboration_notices_by_principal", "project", "principal", "id"),
    Index("collaboration_notices_unread", "project", "principal", "read"),
)
_UNREAD = notices.c.read.is_(false())


def add_notice(work: UnitOfWork, row: dict[str, Any]) -> None:
    insert_or_skip(work, notices, row)


def list_notices(
    work: UnitOfWork, project: str, principal: str, *, unread: bool, before: str, limit: int
) -> Sequence[Row[Any]]:
    """Newest first."""
    found = select(notices).where(notices.c.project == project, notices.c.principal == principal)
    if unread:
        found = found.where(_UNREAD)
    if before:
        found = found.where(notices.c.id < before)
    return work.execute(found.order_by(notices.c.id.desc()).limit(limit)).all()


def count_unread(work: UnitOfWork, project: str, principal: str) -> int:
    mine = (notices.c.project == project, notices.c.principal == principal, _UNREAD)
    return int(work.execute(select(func.count()).select_from(notices).where(*mine)).scalar_one())


def mark_read(work: UnitOfWork, project: str, principal: str, *, ids: Collection[str] = (), about: str = "") -> None:
    """These, or those about something; all of them where neither is said."""
    marking = update(notices).where(notices.c.project == project, notices.c.principal == principal, _UNREAD)
    if ids:
        marking = marking.where(notices.c.id.in_(sorted(ids)))
    if about:
        marking = marking.where(notices.c.about == about)
    work.execute(marking.values(read=true()))


def remove_notices(work: UnitOfWork, about: str) -> None:
    work.execute(delete(notices).where(notices.c.about == about))
