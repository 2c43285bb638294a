"""SQL of monitors and of what their revisions are held against."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, delete, insert, or_, select, update

from falaj.database.work import UnitOfWork
from falaj.monitoring.store.tables import Found, detectors, monitors, pieces, references, windows
from falaj.serving.store.tables import endpoints, revisions
from falaj.storage.store import keys


def find(work: UnitOfWork, endpoint: str, *, hold: bool = False) -> Found | None:
    mine = select(monitors).where(monitors.c.endpoint == endpoint)
    return work.execute(mine.with_for_update() if hold else mine).first()


def by_id(work: UnitOfWork, id: str, *, hold: bool = False) -> Found | None:
    mine = select(monitors).where(monitors.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def of_endpoints(work: UnitOfWork, endpoints: Collection[str]) -> dict[str, Found]:
    found = work.execute(select(monitors).where(monitors.c.endpoint.in_(endpoints)))
    return {row.endpoint: row for row in found}


def page(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    wanted = select(monitors).where(monitors.c.project == project, monitors.c.id > after)
    return work.execute(wanted.order_by(monitors.c.id).limit(limit)).all()


def every(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(monitors).order_by(monitors.c.id)).all()


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(monitors).values(row))


def change(work: UnitOfWork, id: str, **columns: Any) -> None:
    work.execute(update(monitors).where(monitors.c.id == id).values(columns))


def forget(work: UnitOfWork, id: str) -> None:
    """With all that hangs on it; the blobs are somebody else's to let go of. Its windows are as old as can be from now on."""
    work.execute(update(windows).where(windows.c.monitor == id).values(until=0))
    for table in (pieces, references, detectors):
        work.execute(delete(table).where(table.c.monitor == id))
    work.execute(delete(monitors).where(monitors.c.id == id))


def orphans(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Monitors of endpoints that were deleted, and of projects whose key was destroyed."""
    both = select(monitors).outerjoin(endpoints, and_(endpoints.c.id == monitors.c.endpoint, endpoints.c.deleted.is_(None)))
    shredded = select(keys.c.project).where(keys.c.project == monitors.c.project, keys.c.shredded.is_not(None)).exists()
    return work.execute(both.where(or_(endpoints.c.id.is_(None), shredded)).order_by(monitors.c.id).limit(limit)).all()


def unwatched(work: UnitOfWork) -> Sequence[Found]:
    """Revisions in use without anything that they are held against, each with its monitor (`monitor`) and `wishes`."""
    mine = and_(references.c.monitor == monitors.c.id, references.c.revision == revisions.c.number)
    found = select(revisions, monitors.c.id.label("monitor"), monitors.c.wishes, monitors.c.wisher, endpoints.c.zone)
    found = found.join(endpoints, endpoints.c.id == revisions.c.endpoint).join(monitors, monitors.c.endpoint == endpoints.c.id)
    in_use = and_(revisions.c.endpoint.in_(select(monitors.c.endpoint)), revisions.c.used)  # of all that ever were, the few
    lacking = found.outerjoin(references, mine).where(in_use, endpoints.c.deleted.is_(None))
    return work.execute(lacking.where(references.c.monitor.is_(None)).order_by(monitors.c.id, revisions.c.number)).all()


def unused(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """What revisions were held against that nobody uses any more."""
    found = select(references).join(revisions, revisions.c.id == references.c.revision_id).where(~revisions.c.used)
    return work.execute(found.order_by(references.c.monitor, references.c.revision).limit(limit)).all()


def references_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    wanted = select(references).where(references.c.monitor.in_(ids)).order_by(references.c.revision)
    for row in work.execute(wanted):
        found.setdefault(row.monitor, []).append(row)
    return found


def reference(work: UnitOfWork, monitor: str, revision: int, *, hold: bool = False) -> Found | None:
    mine = select(references).where(references.c.monitor == monitor, references.c.revision == revision)
    return work.execute(mine.with_for_update() if hold else mine).first()


def references_in(work: UnitOfWork, zone: str) -> Sequence[Found]:
    """With the wishes of their monitors."""
    both = select(references, monitors.c.wishes).join(monitors, monitors.c.id == references.c.monitor)
    return work.execute(both.where(references.c.zone == zone).order_by(references.c.monitor, references.c.revision)).all()


def put_reference(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    mine = (references.c.monitor == row["monitor"], references.c.revision == row["revision"])
    if not work.execute(update(references).where(*mine).values(dict(row))).rowcount:
        work.execute(insert(references).values(dict(row)))


def change_reference(work: UnitOfWork, monitor: str, revision: int, **columns: Any) -> None:
    mine = (references.c.monitor == monitor, references.c.revision == revision)
    work.execute(update(references).where(*mine).values(columns))


def drop_reference(work: UnitOfWork, monitor: str, revision: int) -> None:
    work.execute(delete(references).where(references.c.monitor == monitor, references.c.revision == revision))


def standing(work: UnitOfWork, monitor: str, revision: int, slot: str) -> str:
    """Of the detectors; empty where they have seen nothing yet."""
    mine = (detectors.c.monitor == monitor, detectors.c.revision == revision, detectors.c.slot == slot)
    return str(work.execute(select(detectors.c.standing).where(*mine)).scalar() or "")


def put_standing(work: UnitOfWork, monitor: str, revision: int, slot: str, standing: str) -> None:
    """The row of what they are held against is held."""
    mine = (detectors.c.monitor == monitor, detectors.c.revision == revision, detectors.c.slot == slot)
    if not work.execute(update(detectors).where(*mine).values(standing=standing)).rowcount:
        row = {"monitor": monitor, "revision": revision, "slot": slot, "standing": standing}
        work.execute(insert(detectors).values(row))


def drop_standings(work: UnitOfWork, monitor: str, revision: int) -> None:
    work.execute(delete(detectors).where(detectors.c.monitor == monitor, detectors.c.revision == revision))
