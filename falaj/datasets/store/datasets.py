"""SQL of datasets and their tags."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, datasets, tags, versions

_LIVE: Final = select(datasets).where(
    datasets.c.project == bindparam("project"), datasets.c.name == bindparam("name"), datasets.c.deleted.is_(None)
)
_HELD: Final = _LIVE.with_for_update()


def add(work: UnitOfWork, *, id: str, project: str, name: str, description: str, zone: str, by: str, now: Moment) -> bool:
    """False where the name is taken."""
    row = {
        "id": id,
        "project": project,
        "name": name,
        "description": description,
        "zone": zone,
        "last_version": 0,
        "current": 0,
        "created": now,
        "created_by": by,
        "changed": now,
    }
    return insert_or_skip(work, datasets, row)


def find(work: UnitOfWork, project: str, name: str, *, hold: bool = False) -> Found | None:
    """`hold`: nobody else makes a version of it until the transaction ends."""
    return work.execute(_HELD if hold else _LIVE, {"project": project, "name": name}).first()


def list_after(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    mine = select(datasets).where(datasets.c.project == project, datasets.c.name > after, datasets.c.deleted.is_(None))
    return work.execute(mine.order_by(datasets.c.name).limit(limit)).all()


def named(work: UnitOfWork, project: str, names: Collection[str]) -> Sequence[Found]:
    """Those of these names that there are."""
    wanted = (datasets.c.project == project, datasets.c.name.in_(sorted(names)), datasets.c.deleted.is_(None))
    return work.execute(select(datasets).where(*wanted).order_by(datasets.c.name)).all()


def external_in(work: UnitOfWork, project: str) -> Sequence[Found]:
    """Those of a project that are tables elsewhere, or were before they were deleted."""
    wanted = (datasets.c.project == project, datasets.c.external.is_not(None), datasets.c.external != "")
    return work.execute(select(datasets).where(*wanted).order_by(datasets.c.id)).all()


def change(work: UnitOfWork, id: str, **changes: Any) -> None:
    work.execute(update(datasets).where(datasets.c.id == id).values(**changes))


def version_counts(work: UnitOfWork, ids: Collection[str]) -> dict[str, int]:
    counted = select(versions.c.dataset, func.count().label("number")).where(versions.c.dataset.in_(ids))
    return {row.dataset: row.number for row in work.execute(counted.group_by(versions.c.dataset))}


def tags_of(work: UnitOfWork, ids: Collection[str]) -> Sequence[Found]:
    return work.execute(select(tags).where(tags.c.dataset.in_(ids)).order_by(tags.c.tag)).all()


def tagged(work: UnitOfWork, id: str, tag: str) -> int:
    """The number of the version that the tag means; 0 where there is no such tag."""
    return int(work.execute(select(tags.c.version).where(tags.c.dataset == id, tags.c.tag == tag)).scalar() or 0)


def set_tag(work: UnitOfWork, id: str, tag: str, version: int) -> None:
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(tags).values(dataset=id, tag=tag, version=version)
    work.execute(statement.on_conflict_do_update(index_elements=["dataset", "tag"], set_={"version": version}))


def remove_tag(work: UnitOfWork, id: str, tag: str) -> bool:
    return work.execute(delete(tags).where(tags.c.dataset == id, tags.c.tag == tag)).rowcount == 1
