"""The tables of feature views, and their SQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, String, Table, Text, UniqueConstraint, func, select, update

from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata
from falaj.datasets.store.tables import Found

# Every version of a view is a row. `definition` and `columns` are JSON; `columns` are its features with their types.
# `logged` is how many of a million served entities are kept for audits. One that was deleted keeps its row, so that its number
# never means another one.
views: Final = Table(
    "datasets_views",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("definition", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("logged", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    UniqueConstraint("project", "name", "version", name="datasets_views_version"),
)


def add(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where there is such a version already."""
    return insert_or_skip(work, views, row)


def change(work: UnitOfWork, id: str, **changes: Any) -> None:
    work.execute(update(views).where(views.c.id == id).values(**changes))


def find(work: UnitOfWork, project: str, name: str, version: int | None = None) -> Found | None:
    """The newest, where no version is said."""
    mine = select(views).where(views.c.project == project, views.c.name == name, views.c.deleted.is_(None))
    if version is not None:
        return work.execute(mine.where(views.c.version == version)).first()
    return work.execute(mine.order_by(views.c.version.desc()).limit(1)).first()


def living(work: UnitOfWork, project: str, name: str) -> Sequence[Found]:
    """All versions that were not deleted, newest first."""
    mine = (views.c.project == project, views.c.name == name, views.c.deleted.is_(None))
    return work.execute(select(views).where(*mine).order_by(views.c.version.desc())).all()


def last_version(work: UnitOfWork, project: str, name: str) -> int:
    """The greatest number that was ever given; 0: none."""
    mine = (views.c.project == project, views.c.name == name)
    return int(work.execute(select(func.max(views.c.version)).where(*mine)).scalar() or 0)


def definitions_over(work: UnitOfWork, project: str, dataset: str) -> Sequence[str]:
    """Of every version of every view that reads some version of this dataset; of others may be among them."""
    says = views.c.definition.contains(f'"{dataset}@', autoescape=True)
    living = (views.c.project == project, views.c.deleted.is_(None))
    return list(work.execute(select(views.c.definition).where(*living, says).distinct()).scalars())


def list_after(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    """The newest of each, by name."""
    newest = select(views.c.name, func.max(views.c.version).label("version")).where(
        views.c.project == project, views.c.name > after, views.c.deleted.is_(None)
    )
    newest = newest.group_by(views.c.name).order_by(views.c.name).limit(limit)
    chosen = newest.subquery()
    same = (views.c.name == chosen.c.name) & (views.c.version == chosen.c.version)
    found = select(views).join(chosen, same).where(views.c.project == project).order_by(views.c.name)
    return work.execute(found).all()
