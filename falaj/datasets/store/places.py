"""SQL of places that data is in, and of parts that were brought from there for a while."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, copies, datasets, parts, place_projects, places


def put(work: UnitOfWork, row: Mapping[str, Any], projects: Collection[str]) -> None:
    """Declare a place, or all of it anew."""
    forget(work, row["name"])
    work.execute(insert(places).values(row))
    if projects:
        work.execute(insert(place_projects), [{"place": row["name"], "project": project} for project in sorted(projects)])


def find(work: UnitOfWork, name: str) -> Found | None:
    return work.execute(select(places).where(places.c.name == name)).first()


def list_after(work: UnitOfWork, after: str, limit: int) -> Sequence[Found]:
    return work.execute(select(places).where(places.c.name > after).order_by(places.c.name).limit(limit)).all()


def of_project(work: UnitOfWork, project: str) -> Sequence[Found]:
    mine = select(places).join(place_projects, place_projects.c.place == places.c.name)
    return work.execute(mine.where(place_projects.c.project == project).order_by(places.c.name)).all()


def projects_of(work: UnitOfWork, names: Collection[str]) -> dict[str, list[str]]:
    """The ids of the projects that may use a place, by its name."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for row in work.execute(select(place_projects).where(place_projects.c.place.in_(sorted(names)))):
        found[row.place].append(row.project)
    return found


def forget(work: UnitOfWork, name: str) -> bool:
    work.execute(delete(place_projects).where(place_projects.c.place == name))
    return work.execute(delete(places).where(places.c.name == name)).rowcount > 0


def is_used(work: UnitOfWork, name: str) -> bool:
    """Whether a dataset that was not deleted has its rows there."""
    told = datasets.c.external.contains(f'"place":"{name}"', autoescape=True)
    used = select(datasets.c.external).where(datasets.c.external.is_not(None), datasets.c.deleted.is_(None), told)
    return work.execute(used.limit(1)).first() is not None


# Copies


def copy_of(work: UnitOfWork, part: str) -> Found | None:
    return work.execute(select(copies).where(copies.c.part == part)).first()


def add_copy(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where there is one already."""
    return insert_or_skip(work, copies, row)


def use_copy(work: UnitOfWork, part: str, now: Moment) -> None:
    work.execute(update(copies).where(copies.c.part == part, copies.c.used < now).values(used=now))


def copied_bytes(work: UnitOfWork, project: str = "") -> int:
    """In all, or of one project."""
    mine = (copies.c.project == project,) if project else ()
    return int(work.execute(select(func.sum(copies.c.size)).where(*mine)).scalar() or 0)


def copy_of_largest(work: UnitOfWork, but: str, more_than: int) -> Found | None:
    """The longest unused of the project that has most, where that is another than `but` and has more than so many bytes."""
    held = func.sum(copies.c.size)
    largest = select(copies.c.project).where(copies.c.project != but).group_by(copies.c.project).having(held > more_than)
    project = work.execute(largest.order_by(held.desc(), copies.c.project).limit(1)).scalar()
    return work.execute(select(copies).where(copies.c.project == project).order_by(copies.c.used).limit(1)).first()


def copies_before(work: UnitOfWork, before: Moment, limit: int) -> Sequence[Found]:
    """Those that nobody used since, the longest unused first."""
    return work.execute(select(copies).where(copies.c.used < before).order_by(copies.c.used).limit(limit)).all()


def drop_copy(work: UnitOfWork, part: str) -> None:
    work.execute(delete(copies).where(copies.c.part == part))


def resize(work: UnitOfWork, part: str, size: int) -> None:
    work.execute(update(parts).where(parts.c.id == part).values(size=size))
