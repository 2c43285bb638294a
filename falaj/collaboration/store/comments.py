"""Comments, and whom they mention.

A text is kept without the names it mentions: each stands beside it as a position and a principal, and is put back under what
that principal is called when the comment is read. So nobody's name is left in a text once the person is erased.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, Row, String, Table, Text, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.collaboration.mentions import Mention
from falaj.database.work import UnitOfWork, metadata

comments = Table(
    "collaboration_comments",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("thing", String(32), nullable=False),
    Column("author", String(32), nullable=False),
    Column("text", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("edited", BigInteger),
    Index("collaboration_comments_by_thing", "project", "kind", "thing", "id"),
)
mentions = Table(
    "collaboration_mentions",
    metadata,
    Column("comment", String(32), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("principal", String(32), nullable=False),
)


def add_comment(work: UnitOfWork, row: dict[str, Any], mentioned: Sequence[Mention]) -> None:
    work.execute(insert(comments).values(row))
    _add_mentions(work, row["id"], mentioned)


def change_comment(work: UnitOfWork, id: str, *, text: str, mentioned: Sequence[Mention], now: Moment) -> None:
    work.execute(update(comments).where(comments.c.id == id).values(text=text, edited=now))
    work.execute(delete(mentions).where(mentions.c.comment == id))
    _add_mentions(work, id, mentioned)


def remove_comment(work: UnitOfWork, id: str) -> None:
    work.execute(delete(mentions).where(mentions.c.comment == id))
    work.execute(delete(comments).where(comments.c.id == id))


def comment_with_id(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Row[Any] | None:
    """`hold` keeps others from changing it until this transaction ends."""
    found = select(comments).where(comments.c.project == project, comments.c.id == id)
    return work.execute(found.with_for_update() if hold else found).first()


def comments_on(work: UnitOfWork, project: str, kind: str, thing: str, *, after: str, limit: int) -> Sequence[Row[Any]]:
    here = (comments.c.project == project, comments.c.kind == kind, comments.c.thing == thing, comments.c.id > after)
    return work.execute(select(comments).where(*here).order_by(comments.c.id).limit(limit)).all()


def comments_with(work: UnitOfWork, project: str, ids: Collection[str]) -> dict[str, Row[Any]]:
    rows = work.execute(select(comments).where(comments.c.project == project, comments.c.id.in_(sorted(ids))))
    return {row.id: row for row in rows}


def mentions_in(work: UnitOfWork, ids: Collection[str]) -> dict[str, tuple[Mention, ...]]:
    """By comment, in the order of the text."""
    found: dict[str, list[Mention]] = {}
    of_these = select(mentions).where(mentions.c.comment.in_(sorted(ids)))
    for row in work.execute(of_these.order_by(mentions.c.comment, mentions.c.position)):
        found.setdefault(row.comment, []).append(Mention(position=row.position, principal=row.principal))
    return {comment: tuple(mentioned) for comment, mentioned in found.items()}


def _add_mentions(work: UnitOfWork, comment: str, mentioned: Sequence[Mention]) -> None:
    rows = [{"comment": comment, "position": mention.position, "principal": mention.principal} for mention in mentioned]
    if rows:
        work.execute(insert(mentions), rows)
