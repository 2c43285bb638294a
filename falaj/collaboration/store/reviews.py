"""Reviews that were asked for. Of one person there is one open review of a thing at a time."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Row, String, Table, Text, literal, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata

OPEN: Final = "open"

reviews = Table(
    "collaboration_reviews",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("thing", String(32), nullable=False),
    Column("asked_by", String(32), nullable=False),
    Column("asked", String(32), nullable=False),
    Column("note", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("answer", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("answered", BigInteger),
    Index("collaboration_reviews_by_thing", "project", "kind", "thing", "id"),
    Index("collaboration_reviews_by_asked", "project", "asked", "id"),
    Index("collaboration_reviews_by_asked_by", "project", "asked_by", "id"),
)
_IS_OPEN = reviews.c.state == literal(OPEN, literal_execute=True)
Index(
    "collaboration_reviews_open",
    reviews.c.project,
    reviews.c.kind,
    reviews.c.thing,
    reviews.c.asked,
    unique=True,
    sqlite_where=_IS_OPEN,
    postgresql_where=_IS_OPEN,
)


def add_review(work: UnitOfWork, row: dict[str, Any]) -> bool:
    """Whether there was no open one like it."""
    return insert_or_skip(work, reviews, row)


def review_with_id(work: UnitOfWork, project: str, id: str) -> Row[Any] | None:
    return work.execute(select(reviews).where(reviews.c.project == project, reviews.c.id == id)).first()


def close_review(work: UnitOfWork, id: str, *, state: str, answer: str, now: Moment) -> bool:
    """Whether it was open until now."""
    closing = update(reviews).where(reviews.c.id == id, reviews.c.state == OPEN)
    return work.execute(closing.values(state=state, answer=answer, answered=now)).rowcount == 1


def list_reviews(
    work: UnitOfWork,
    project: str,
    *,
    asked: str,
    asked_by: str,
    state: str,
    kind: str,
    thing: str,
    before: str,
    limit: int,
) -> Sequence[Row[Any]]:
    """Newest first; empty texts mean any."""
    found = select(reviews).where(reviews.c.project == project)
    wishes = ((reviews.c.asked, asked), (reviews.c.asked_by, asked_by), (reviews.c.state, state), (reviews.c.kind, kind))
    for column, wish in (*wishes, (reviews.c.thing, thing)):
        if wish:
            found = found.where(column == wish)
    if before:
        found = found.where(reviews.c.id < before)
    return work.execute(found.order_by(reviews.c.id.desc()).limit(limit)).all()


def reviews_with(work: UnitOfWork, project: str, ids: Collection[str]) -> dict[str, Row[Any]]:
    rows = work.execute(select(reviews).where(reviews.c.project == project, reviews.c.id.in_(sorted(ids))))
    return {row.id: row for row in rows}
