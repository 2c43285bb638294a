"""The tables of feature views, and their SQL."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, ForeignKey, String, Table, Text, UniqueConstraint, delete, func, select, update

from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata
from falaj.datasets.store.tables import Found

# Every version of a view is a row. `definition` and `columns` are JSON; `columns` are its features with their types.
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
    UniqueConstraint("project", "name", "version", name="datasets_views_version"),
)
# The newest values of a view, as they are kept for serving: of which moment (`of`), out of what, and in which columns (JSON).
# Where those change their types rows lie beside the earlier ones until the next time.
materialised: Final = Table(
    "datasets_materialised",
    metadata,
    Column("view", String(32), ForeignKey("datasets_views.id"), primary_key=True),
    Column("shape", String(64), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("columns", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("of", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
)
# What a project's rows are sealed with online, by zone: the key of a blob, which the key ring keeps.
online_keys: Final = Table(
    "datasets_online_keys",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("zone", String(100), primary_key=True),
    Column("blob", String(32), nullable=False),
)


def add(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where there is such a version already."""
    return insert_or_skip(work, views, row)


def change(work: UnitOfWork, id: str, **changes: Any) -> None:
    work.execute(update(views).where(views.c.id == id).values(**changes))


def find(work: UnitOfWork, project: str, name: str, version: int | None = None) -> Found | None:
    """The newest, where no version is said."""
    mine = select(views).where(views.c.project == project, views.c.name == name)
    if version is not None:
        return work.execute(mine.where(views.c.version == version)).first()
    return work.execute(mine.order_by(views.c.version.desc()).limit(1)).first()


def definitions_over(work: UnitOfWork, project: str, dataset: str) -> Sequence[str]:
    """Of every version of every view that reads some version of this dataset; of others may be among them."""
    says = views.c.definition.contains(f'"{dataset}@', autoescape=True)
    return list(work.execute(select(views.c.definition).where(views.c.project == project, says).distinct()).scalars())


def list_after(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    """The newest of each, by name."""
    newest = select(views.c.name, func.max(views.c.version).label("version")).where(
        views.c.project == project, views.c.name > after
    )
    newest = newest.group_by(views.c.name).order_by(views.c.name).limit(limit)
    chosen = newest.subquery()
    same = (views.c.name == chosen.c.name) & (views.c.version == chosen.c.version)
    found = select(views).join(chosen, same).where(views.c.project == project).order_by(views.c.name)
    return work.execute(found).all()


# What is kept for serving


def materialised_as(work: UnitOfWork, view: str) -> Sequence[Found]:
    """Of one version of a view, newest first."""
    return work.execute(select(materialised).where(materialised.c.view == view).order_by(materialised.c.of.desc())).all()


def newest_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, int]:
    """Of when the values of these views are that are kept for serving, where some are."""
    newest = select(materialised.c.view, func.max(materialised.c.of).label("of")).where(materialised.c.view.in_(ids))
    return {row.view: row.of for row in work.execute(newest.group_by(materialised.c.view))}


def find_served(work: UnitOfWork, project: str, name: str, version: int | None) -> Found | None:
    """The newest version of a view of which values are kept, or this one, and which they are."""
    kept = (materialised.c.shape, materialised.c.zone, materialised.c.dataset, materialised.c.columns.label("kept"))
    joined = select(views, *kept, materialised.c.of).join(materialised, materialised.c.view == views.c.id)
    mine = joined.where(views.c.project == project, views.c.name == name)
    if version is not None:
        mine = mine.where(views.c.version == version)
    return work.execute(mine.order_by(views.c.version.desc(), materialised.c.of.desc()).limit(1)).first()


def keep_materialised(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    """One of a later moment stays."""
    if insert_or_skip(work, materialised, row):
        return
    same = (materialised.c.view == row["view"], materialised.c.shape == row["shape"], materialised.c.of <= row["of"])
    changes = {name: row[name] for name in ("dataset", "source", "of", "rows")}
    work.execute(update(materialised).where(*same).values(**changes))


def drop_materialised(work: UnitOfWork, view: str, shapes: Collection[str]) -> None:
    work.execute(delete(materialised).where(materialised.c.view == view, materialised.c.shape.in_(shapes)))


def find_key(work: UnitOfWork, project: str, zone: str) -> str | None:
    mine = select(online_keys.c.blob).where(online_keys.c.project == project, online_keys.c.zone == zone)
    found: str | None = work.execute(mine).scalar_one_or_none()
    return found


def add_key(work: UnitOfWork, project: str, zone: str, blob: str) -> None:
    """Unless there is one."""
    insert_or_skip(work, online_keys, {"project": project, "zone": zone, "blob": blob})
