"""SQL of projects and the zones they may use."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Integer, Row, Select, String, Table, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.database.work import UnitOfWork, metadata
from falaj.governance.store import changed
from falaj.governance.zones.store import Zone, zones_named

projects = Table(
    "governance_projects",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("description", String(2000), nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
)
# The first zone, by position, is where things go when a call names none.
project_zones = Table(
    "governance_project_zones",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("zone", String(100), primary_key=True, index=True),
    Column("position", Integer, nullable=False),
)


@value
class Project:
    id: ProjectId
    name: str
    description: str
    archived: bool
    created: Moment
    zones: tuple[Zone, ...]


def _with_zones(work: UnitOfWork, rows: Sequence[Row[Any]]) -> list[Project]:
    listed = work.execute(
        select(project_zones)
        .where(project_zones.c.project.in_([row.id for row in rows]))
        .order_by(project_zones.c.project, project_zones.c.position)
    ).all()
    known = zones_named(work, (row.zone for row in listed))
    return [
        Project(
            id=ProjectId(row.id),
            name=row.name,
            description=row.description,
            archived=row.archived,
            created=Moment(row.created),
            zones=tuple(known[entry.zone] for entry in listed if entry.project == row.id),
        )
        for row in rows
    ]


def _one(work: UnitOfWork, query: Select[Any]) -> Project | None:
    row = work.execute(query).first()
    return None if row is None else _with_zones(work, [row])[0]


def project_named(work: UnitOfWork, name: str) -> Project | None:
    return _one(work, select(projects).where(projects.c.name == name))


def project_by_id(work: UnitOfWork, id: str) -> Project | None:
    return _one(work, select(projects).where(projects.c.id == id))


def project_names(work: UnitOfWork, ids: Iterable[str]) -> dict[str, str]:
    rows = work.execute(select(projects.c.id, projects.c.name).where(projects.c.id.in_(sorted(set(ids)))))
    return {row.id: row.name for row in rows}


def projects_after(
    work: UnitOfWork, *, ids: Iterable[str] | None, names: Iterable[str] | None, archived: bool, after: str, limit: int
) -> list[Project]:
    """In order of name; `ids` and `names`, where given, are the only ones to look among."""
    query = select(projects).where(projects.c.name > after, projects.c.archived.is_(archived))
    if ids is not None:
        query = query.where(projects.c.id.in_(sorted(set(ids))))
    if names is not None:
        query = query.where(projects.c.name.in_(sorted(set(names))))
    return _with_zones(work, work.execute(query.order_by(projects.c.name).limit(limit)).all())


def add_project(work: UnitOfWork, *, id: ProjectId, name: str, description: str, zones: Sequence[str], now: Moment) -> None:
    work.execute(insert(projects).values(id=id, name=name, description=description, archived=False, created=now))
    set_zones(work, id, zones)


def set_zones(work: UnitOfWork, project: ProjectId, zones: Sequence[str]) -> None:
    work.execute(delete(project_zones).where(project_zones.c.project == project))
    for position, zone in enumerate(zones):
        work.execute(insert(project_zones).values(project=project, zone=zone, position=position))
    changed(work)


def describe_project(work: UnitOfWork, project: ProjectId, description: str) -> None:
    work.execute(update(projects).where(projects.c.id == project).values(description=description))
    changed(work)


def set_archived(work: UnitOfWork, project: ProjectId, archived: bool) -> None:
    work.execute(update(projects).where(projects.c.id == project).values(archived=archived))
    changed(work)


def zone_is_listed(work: UnitOfWork, zone: str) -> bool:
    """Whether any project, archived ones included, may use the zone."""
    return work.execute(select(project_zones.c.zone).where(project_zones.c.zone == zone).limit(1)).first() is not None
