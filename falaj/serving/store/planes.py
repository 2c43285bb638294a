"""SQL of planes, and of how revisions are on each of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, endpoints, instances, planes, revisions

_OF_PRINCIPAL: Final = select(planes).where(planes.c.principal == bindparam("principal"))
_HELD: Final = _OF_PRINCIPAL.with_for_update()


def add(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where the name is taken."""
    return insert_or_skip(work, planes, row)


def find(work: UnitOfWork, name: str, *, hold: bool = False) -> Found | None:
    named = select(planes).where(planes.c.name == name)
    return work.execute(named.with_for_update() if hold else named).first()


def of_principal(work: UnitOfWork, principal: str, *, hold: bool = False) -> Found | None:
    """`hold`: no other report of the plane comes in between."""
    return work.execute(_HELD if hold else _OF_PRINCIPAL, {"principal": principal}).first()


def page(work: UnitOfWork, after: str, limit: int) -> Sequence[Found]:
    return work.execute(select(planes).where(planes.c.name > after).order_by(planes.c.name).limit(limit)).all()


def in_zones(work: UnitOfWork, zones: Collection[str], *, heard_since: Moment) -> dict[str, list[Found]]:
    """The planes that were heard of late, by zone."""
    found: dict[str, list[Found]] = {}
    mine = select(planes).where(planes.c.zone.in_(sorted(zones)), planes.c.heard >= heard_since)
    for row in work.execute(mine.order_by(planes.c.name)):
        found.setdefault(row.zone, []).append(row)
    return found


def change(work: UnitOfWork, id: str, **values: Any) -> None:
    work.execute(update(planes).where(planes.c.id == id).values(**values))


def remove(work: UnitOfWork, id: str) -> None:
    work.execute(delete(instances).where(instances.c.plane == id))
    work.execute(delete(planes).where(planes.c.id == id))


# Instances


def instances_on(work: UnitOfWork, plane: str) -> dict[tuple[str, int], Found]:
    rows = work.execute(select(instances).where(instances.c.plane == plane))
    return {(row.endpoint, row.revision): row for row in rows}


def instances_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    """By endpoint."""
    found: dict[str, list[Found]] = {}
    mine = select(instances).where(instances.c.endpoint.in_(sorted(set(ids))))
    for row in work.execute(mine.order_by(instances.c.endpoint, instances.c.revision, instances.c.plane)):
        found.setdefault(row.endpoint, []).append(row)
    return found


_REMOVE: Final = delete(instances).where(
    instances.c.plane == bindparam("its_plane"),
    instances.c.endpoint == bindparam("its_endpoint"),
    instances.c.revision == bindparam("its_revision"),
)


def replace_instances(work: UnitOfWork, plane: str, gone: Iterable[tuple[str, int]], rows: Sequence[Mapping[str, Any]]) -> None:
    """Forget what a plane has no more, or says otherwise now, and keep what it says."""
    removed = [{"its_plane": plane, "its_endpoint": endpoint, "its_revision": revision} for endpoint, revision in gone]
    if removed:
        work.execute(_REMOVE, removed)
    if rows:
        work.execute(insert(instances), rows)


def broken(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Revisions that a plane put into quarantine and the platform has not: endpoint, revision, why, and on which plane."""
    same = and_(revisions.c.endpoint == instances.c.endpoint, revisions.c.number == instances.c.revision)
    found = (
        select(instances.c.endpoint, instances.c.revision, instances.c.problem, planes.c.name.label("plane_name"))
        .join(planes, planes.c.id == instances.c.plane)
        .join(revisions, same)
        .join(endpoints, endpoints.c.id == instances.c.endpoint)
        .where(instances.c.quarantined, revisions.c.quarantined == "", endpoints.c.deleted.is_(None))
    )
    return work.execute(found.order_by(instances.c.endpoint, instances.c.revision).limit(limit)).all()
