"""SQL of the zones' serials, and of everything that a zone's state is drawn from, whichever room has it."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import memberships, principals
from falaj.governance.projects.store import project_zones, projects
from falaj.governance.store import generation
from falaj.keys.store import current
from falaj.serving.store.tables import Found, endpoints, keys, revision_files, revisions, zones
from falaj.storage.store import keys as project_keys

# A project that is archived, left the zone or was shredded is served no more.
_SERVED: Final = and_(
    endpoints.c.deleted.is_(None),
    ~projects.c.archived,
    exists(
        select(project_zones.c.zone).where(
            project_zones.c.project == endpoints.c.project, project_zones.c.zone == endpoints.c.zone
        )
    ),
    ~exists(
        select(project_keys.c.project).where(
            project_keys.c.project == endpoints.c.project, project_keys.c.shredded.is_not(None)
        )
    ),
)


def watch(work: UnitOfWork, purpose: str) -> str:
    """Differs whenever something outside this room changed that a state may depend on. Cheap."""
    shredded = work.execute(select(func.count()).where(project_keys.c.shredded.is_not(None))).scalar_one()
    signer = current(work, purpose)
    return f"{generation(work)}/{signer.id if signer else ''}/{shredded}"


def find_zone(work: UnitOfWork, zone: str) -> Found | None:
    return work.execute(select(zones).where(zones.c.zone == zone)).first()


def all_zones(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(zones).order_by(zones.c.zone)).all()


def bump(work: UnitOfWork, zone: str, purpose: str, now: Moment) -> int:
    """A new serial for a zone; what is in the transaction's other changes stands in the state of that serial.

    Serials are moments, so that they go on rising when an older database is put back.
    """
    work.execute(select(zones.c.serial).where(zones.c.zone == zone).with_for_update())
    new = case((zones.c.serial >= now, zones.c.serial + 1), else_=int(now))
    watched = watch(work, purpose)
    moved = update(zones).where(zones.c.zone == zone).values(serial=new, watched=watched, fingerprint="")
    serial = work.execute(moved.returning(zones.c.serial)).scalar()
    if serial is None:
        row = {"zone": zone, "serial": int(now), "watched": watched, "fingerprint": ""}
        if not insert_or_skip(work, zones, row):
            return bump(work, zone, purpose, now)
        return int(now)
    return int(serial)


def settle(work: UnitOfWork, seen: Found, *, watched: str, fingerprint: str, serial: int) -> bool:
    """Write down what a state came to, unless somebody moved it since it was seen."""
    same = and_(zones.c.zone == seen.zone, zones.c.serial == seen.serial, zones.c.watched == seen.watched)
    return work.execute(update(zones).where(same).values(serial=serial, watched=watched, fingerprint=fingerprint)).rowcount == 1


def served(work: UnitOfWork, zone: str) -> Sequence[Found]:
    """The endpoints of a zone that are answered for, each with its project's name."""
    found = select(endpoints, projects.c.name.label("project_name")).join(projects, projects.c.id == endpoints.c.project)
    return work.execute(found.where(endpoints.c.zone == zone, _SERVED).order_by(endpoints.c.id)).all()


def is_served(work: UnitOfWork, endpoint: str) -> bool:
    found = select(endpoints.c.id).join(projects, projects.c.id == endpoints.c.project)
    return work.execute(found.where(endpoints.c.id == endpoint, _SERVED)).first() is not None


def revisions_in(work: UnitOfWork, zone: str) -> dict[str, list[Found]]:
    """Revisions in use, by endpoint."""
    found: dict[str, list[Found]] = {}
    for row in work.execute(_used(select(revisions), zone).order_by(revisions.c.number)):
        found.setdefault(row.endpoint, []).append(row)
    return found


def files_in(work: UnitOfWork, zone: str) -> dict[str, list[Found]]:
    """Files of revisions in use, by revision."""
    found: dict[str, list[Found]] = {}
    columns = select(revision_files).join(revisions, revisions.c.id == revision_files.c.revision)
    for row in work.execute(_used(columns, zone).order_by(revision_files.c.position)):
        found.setdefault(row.revision, []).append(row)
    return found


def _used(columns: Select[tuple[object, ...]], zone: str) -> Select[tuple[object, ...]]:
    used = columns.join(endpoints, endpoints.c.id == revisions.c.endpoint)
    return used.where(revisions.c.used, endpoints.c.zone == zone, endpoints.c.deleted.is_(None))


def fallen_keys(work: UnitOfWork, zone: str, now: Moment, project: str = "") -> Sequence[str]:
    """Ids of a zone's keys, or of one project's, that would be good by their dates and hold no more."""
    found = select(keys.c.id).where(keys.c.expires > now, _in_zone(zone), _fallen())
    found = found.where(keys.c.project == project) if project else found
    return work.execute(found.order_by(keys.c.id)).scalars().all()


def signers_needed(work: UnitOfWork, now: Moment) -> set[str]:
    """The signing keys that a key which is still good was signed with."""
    good = select(keys.c.signer).where(keys.c.expires > now, keys.c.revoked.is_(None)).distinct()
    return set(work.execute(good).scalars())


def _in_zone(zone: str) -> ColumnElement[bool]:
    mine = project_zones.c.project == keys.c.project
    return exists(select(project_zones.c.zone).where(mine, project_zones.c.zone == zone))


def _fallen() -> ColumnElement[bool]:
    """Revoked, or made by somebody who is not in the project any more."""
    able = exists(select(principals.c.id).where(principals.c.id == keys.c.created_by, ~principals.c.disabled))
    inside = exists(
        select(memberships.c.principal).where(
            memberships.c.principal == keys.c.created_by, memberships.c.scope == keys.c.project
        )
    )
    return or_(keys.c.revoked.is_not(None), ~able, ~inside)
