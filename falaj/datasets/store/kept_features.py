"""SQL of what is kept of feature views for serving: where rows lie online, of which moment they are, and what was served."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata
from falaj.datasets.features.store import views
from falaj.datasets.store.tables import Found, datasets

# A place online where rows of a view lie: of which moment they are (`of`; none of them counts before there is one), out of
# what, and in which columns (JSON). Where those change their types rows lie beside the earlier ones until the next time.
# `newest` is the last event that is known, `changes` when values will be others though no row comes. While somebody writes
# `writer` tells him from others, `begun` is the moment he writes of, and `begun_from` what he read; who is killed leaves them.
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
    Column("of", BigInteger),
    Column("rows", BigInteger, nullable=False),
    Column("newest", BigInteger),
    Column("changes", BigInteger),
    Column("writer", String(32), nullable=False),
    Column("begun", BigInteger),
    Column("begun_from", Text, nullable=False),
)
# What a project's rows are sealed with online, by zone: the key of a blob, which the key ring keeps.
online_keys: Final = Table(
    "datasets_online_keys",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("zone", String(100), primary_key=True),
    Column("blob", String(32), nullable=False),
)
# What was served at a moment (`at`) of so many entities, out of what `source` as of when; `sealed` are the entities and values.
served: Final = Table(
    "datasets_served",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("view", String(32), ForeignKey("datasets_views.id"), nullable=False),
    Column("dataset", String(32), nullable=False),
    Column("source", Text, nullable=False),
    Column("of", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Index("datasets_served_of", "view", "at"),
    Index("datasets_served_by_age", "at"),
)


def places_of(work: UnitOfWork, view: str) -> Sequence[Found]:
    """Of one version of a view: what can be read first, newest first, then what nobody finished."""
    mine = select(materialised).where(materialised.c.view == view)
    return work.execute(mine.order_by(materialised.c.of.is_(None), materialised.c.of.desc())).all()


def newest_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, Found]:
    """What is kept of these views, where something is that can be read."""
    kept = select(materialised).where(materialised.c.view.in_(ids), materialised.c.of.is_not(None))
    return {row.view: row for row in work.execute(kept.order_by(materialised.c.of))}


def find_served(work: UnitOfWork, project: str, name: str, version: int | None) -> Found | None:
    """The newest version of a view of which values are kept, or this one, and which they are."""
    kept = (materialised.c.shape, materialised.c.zone, materialised.c.dataset, materialised.c.columns.label("kept"))
    written = (materialised.c.source, materialised.c.of, materialised.c.begun, materialised.c.begun_from)
    joined = select(views, *kept, *written).join(materialised, materialised.c.view == views.c.id)
    mine = joined.where(
        views.c.project == project, views.c.name == name, views.c.deleted.is_(None), materialised.c.of.is_not(None)
    )
    if version is not None:
        mine = mine.where(views.c.version == version)
    return work.execute(mine.order_by(views.c.version.desc(), materialised.c.of.desc()).limit(1)).first()


def held_place(work: UnitOfWork, row: Mapping[str, Any]) -> Found:
    """The place of a view and shape, made where there is none, and held."""
    insert_or_skip(work, materialised, row)
    same = (materialised.c.view == row["view"], materialised.c.shape == row["shape"])
    return work.execute(select(materialised).where(*same).with_for_update()).one()


def find_place(work: UnitOfWork, view: str, shape: str) -> Found | None:
    """The same, where there is one."""
    same = (materialised.c.view == view, materialised.c.shape == shape)
    return work.execute(select(materialised).where(*same).with_for_update()).first()


def change_place(work: UnitOfWork, view: str, shape: str, **changes: Any) -> None:
    same = (materialised.c.view == view, materialised.c.shape == shape)
    work.execute(update(materialised).where(*same).values(**changes))


def drop_places(work: UnitOfWork, view: str, shapes: Collection[str]) -> None:
    work.execute(delete(materialised).where(materialised.c.view == view, materialised.c.shape.in_(shapes)))


def drop_place_as_it_was(work: UnitOfWork, row: Found) -> None:
    """Unless somebody wrote there since it was read."""
    same = (materialised.c.view == row.view, materialised.c.shape == row.shape, materialised.c.writer == row.writer)
    work.execute(
        delete(materialised).where(*same, materialised.c.dataset == row.dataset, materialised.c.of.is_not_distinct_from(row.of))
    )


def places_of_deleted(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Where rows lie of views, or of datasets, that were deleted."""
    gone = select(materialised, views.c.deleted.label("view_deleted"), views.c.definition).join(
        views, views.c.id == materialised.c.view
    )
    gone = gone.join(datasets, datasets.c.id == materialised.c.dataset)
    return work.execute(gone.where(or_(views.c.deleted.is_not(None), datasets.c.deleted.is_not(None))).limit(limit)).all()


# Keys


def find_key(work: UnitOfWork, project: str, zone: str) -> str | None:
    mine = select(online_keys.c.blob).where(online_keys.c.project == project, online_keys.c.zone == zone)
    found: str | None = work.execute(mine).scalar_one_or_none()
    return found


def add_key(work: UnitOfWork, project: str, zone: str, blob: str) -> None:
    """Unless there is one."""
    insert_or_skip(work, online_keys, {"project": project, "zone": zone, "blob": blob})


# What was served


def log(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        work.execute(insert(served), list(rows))


def logged(
    work: UnitOfWork, view: str, since: Moment, until: Moment, limit: int, behind: Found | None = None
) -> Sequence[Found]:
    """Newest first; those that come behind another."""
    mine = select(served).where(served.c.view == view, served.c.at >= since, served.c.at < until)
    if behind is not None:
        last = tuple_(literal(behind.at, served.c.at.type), literal(behind.id, served.c.id.type))
        mine = mine.where(tuple_(served.c.at, served.c.id) < last)
    return work.execute(mine.order_by(served.c.at.desc(), served.c.id.desc()).limit(limit)).all()


def forget_served(work: UnitOfWork, before: Moment, limit: int) -> int:
    """Of what was served before, and of views that were deleted, some; how much."""
    deleted = select(views.c.id).where(views.c.deleted.is_not(None))
    old = select(served.c.id).where(or_(served.c.at < before, served.c.view.in_(deleted))).limit(limit)
    return work.execute(delete(served).where(served.c.id.in_(list(work.execute(old).scalars())))).rowcount


def crowded(work: UnitOfWork, most: int) -> Sequence[Found]:
    """Versions of views of which more calls are kept: `view`, and how many `calls`."""
    calls = func.count().label("calls")
    return work.execute(select(served.c.view, calls).group_by(served.c.view).having(calls > most)).all()


def forget_oldest(work: UnitOfWork, view: str, count: int) -> int:
    oldest = select(served.c.id).where(served.c.view == view).order_by(served.c.at, served.c.id).limit(count)
    return work.execute(delete(served).where(served.c.id.in_(list(work.execute(oldest).scalars())))).rowcount
