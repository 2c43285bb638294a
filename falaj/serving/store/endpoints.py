"""SQL of endpoints, their revisions with files, and the changes of their splits."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, changes, endpoints, revision_files, revisions

_LIVE: Final = select(endpoints).where(
    endpoints.c.project == bindparam("project"), endpoints.c.name == bindparam("name"), endpoints.c.deleted.is_(None)
)
_HELD: Final = _LIVE.with_for_update()


def add(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where the name is taken."""
    return insert_or_skip(work, endpoints, row)


def find(work: UnitOfWork, project: str, name: str, *, hold: bool = False) -> Found | None:
    """`hold`: nobody else changes the endpoint until the transaction ends."""
    return work.execute(_HELD if hold else _LIVE, {"project": project, "name": name}).first()


def hold_by_id(work: UnitOfWork, id: str) -> Found | None:
    """A live one of any project, for the platform's own acts."""
    return work.execute(select(endpoints).where(endpoints.c.id == id, endpoints.c.deleted.is_(None)).with_for_update()).first()


def find_by_id(work: UnitOfWork, id: str) -> Found | None:
    """The same, not held."""
    return work.execute(select(endpoints).where(endpoints.c.id == id, endpoints.c.deleted.is_(None))).first()


def page(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    """In order of name."""
    mine = select(endpoints).where(endpoints.c.project == project, endpoints.c.name > after, endpoints.c.deleted.is_(None))
    return work.execute(mine.order_by(endpoints.c.name).limit(limit)).all()


def count(work: UnitOfWork, project: str) -> int:
    mine = select(func.count()).select_from(endpoints).where(endpoints.c.project == project, endpoints.c.deleted.is_(None))
    return int(work.execute(mine).scalar_one())


def ids_of(work: UnitOfWork, project: str, names: Collection[str]) -> dict[str, str]:
    """The ids of a project's endpoints by their names."""
    named = select(endpoints.c.id, endpoints.c.name).where(
        endpoints.c.project == project, endpoints.c.name.in_(sorted(set(names))), endpoints.c.deleted.is_(None)
    )
    return {row.name: row.id for row in work.execute(named)}


def names_of(work: UnitOfWork, project: str, ids: Collection[str]) -> dict[str, str]:
    """Deleted ones too."""
    found = select(endpoints.c.id, endpoints.c.name).where(endpoints.c.project == project, endpoints.c.id.in_(sorted(set(ids))))
    return {row.id: row.name for row in work.execute(found)}


def in_zone(work: UnitOfWork, zone: str, ids: Collection[str]) -> dict[str, Found]:
    """Of these endpoints the live ones of a zone, by id."""
    found: dict[str, Found] = {}
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        rows = work.execute(
            select(endpoints).where(endpoints.c.id.in_(some), endpoints.c.zone == zone, endpoints.c.deleted.is_(None))
        )
        found |= {row.id: row for row in rows}
    return found


def change(work: UnitOfWork, id: str, **values: Any) -> None:
    work.execute(update(endpoints).where(endpoints.c.id == id).values(**values))


# Revisions


def next_revision(work: UnitOfWork, id: str) -> int:
    """The row is held."""
    counted = update(endpoints).where(endpoints.c.id == id).values(last_revision=endpoints.c.last_revision + 1)
    return int(work.execute(counted.returning(endpoints.c.last_revision)).scalar_one())


def converted_before(work: UnitOfWork, project: str, version: str) -> Found | None:
    """The newest revision that was made of a version by converting it."""
    made = select(revisions).where(
        revisions.c.project == project,
        revisions.c.version_id == version,
        revisions.c.converted != "",
        revisions.c.variant == "",  # a variant may be made of what was converted, and is something else
    )
    return work.execute(made.order_by(revisions.c.created.desc()).limit(1)).first()


def add_revision(work: UnitOfWork, row: Mapping[str, Any], files: Iterable[Mapping[str, Any]]) -> None:
    work.execute(insert(revisions).values(row))
    listed = [{**file, "revision": row["id"], "position": position} for position, file in enumerate(files)]
    work.execute(insert(revision_files), listed)


def revisions_of(work: UnitOfWork, endpoint: str, numbers: Collection[int] | None = None) -> dict[int, Found]:
    """By number; all there ever were where no numbers are given."""
    mine = select(revisions).where(revisions.c.endpoint == endpoint)
    if numbers is not None:
        mine = mine.where(revisions.c.number.in_(sorted(set(numbers))))
    return {row.number: row for row in work.execute(mine.order_by(revisions.c.number))}


def revisions_of_version(work: UnitOfWork, project: str, version: str) -> Sequence[Found]:
    """Every one that was ever made of a version, oldest first, with its endpoint's name, zone and when that was deleted."""
    columns = (endpoints.c.name.label("endpoint_name"), endpoints.c.zone, endpoints.c.deleted.label("endpoint_deleted"))
    found = select(revisions, *columns).join(endpoints, endpoints.c.id == revisions.c.endpoint)
    mine = (revisions.c.project == project, revisions.c.version_id == version)
    return work.execute(found.where(*mine).order_by(revisions.c.created, revisions.c.id)).all()


def used_revisions(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    """Those in use, by endpoint."""
    found: dict[str, list[Found]] = {}
    used = select(revisions).where(revisions.c.endpoint.in_(sorted(set(ids))), revisions.c.used)
    for row in work.execute(used.order_by(revisions.c.number)):
        found.setdefault(row.endpoint, []).append(row)
    return found


def revisions_before(work: UnitOfWork, endpoint: str, before: int | None, limit: int) -> Sequence[Found]:
    """Newest first."""
    mine = select(revisions).where(revisions.c.endpoint == endpoint)
    if before is not None:
        mine = mine.where(revisions.c.number < before)
    return work.execute(mine.order_by(revisions.c.number.desc()).limit(limit)).all()


def use(work: UnitOfWork, endpoint: str, numbers: Collection[int]) -> None:
    """These revisions stand in the state from now on, and no others of the endpoint."""
    used = revisions.c.number.in_(sorted(set(numbers)))
    mine = revisions.c.endpoint == endpoint
    work.execute(update(revisions).where(mine, revisions.c.used, ~used).values(used=False))
    work.execute(update(revisions).where(mine, ~revisions.c.used, used).values(used=True))


def quarantine(work: UnitOfWork, endpoint: str, number: int, why: str) -> bool:
    """False where it was already."""
    unspoiled = (revisions.c.endpoint == endpoint, revisions.c.number == number, revisions.c.quarantined == "")
    return work.execute(update(revisions).where(*unspoiled).values(quarantined=why)).rowcount == 1


def in_use(work: UnitOfWork, zone: str, revision: str) -> Found | None:
    """A revision that the state of a zone names, with the endpoint's name."""
    named = select(revisions, endpoints.c.name.label("endpoint_name")).join(endpoints, endpoints.c.id == revisions.c.endpoint)
    found = named.where(revisions.c.id == revision, revisions.c.used, endpoints.c.zone == zone, endpoints.c.deleted.is_(None))
    return work.execute(found).first()


def files_of(work: UnitOfWork, revision: str) -> Sequence[Found]:
    mine = select(revision_files).where(revision_files.c.revision == revision)
    return work.execute(mine.order_by(revision_files.c.position)).all()


# Changes


def next_change(work: UnitOfWork, id: str) -> int:
    """The row is held."""
    counted = update(endpoints).where(endpoints.c.id == id).values(last_change=endpoints.c.last_change + 1)
    return int(work.execute(counted.returning(endpoints.c.last_change)).scalar_one())


def add_change(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(changes).values(row))


def last_moment(work: UnitOfWork, endpoint: str) -> int:
    last = select(changes.c.at).where(changes.c.endpoint == endpoint).order_by(changes.c.place.desc()).limit(1)
    return int(work.execute(last).scalar() or 0)


def last_changes(work: UnitOfWork, endpoint: str, limit: int) -> Sequence[Found]:
    """Oldest first: kind and arms of the last ones."""
    columns = select(changes.c.kind, changes.c.arms).where(changes.c.endpoint == endpoint)
    return list(reversed(work.execute(columns.order_by(changes.c.place.desc()).limit(limit)).all()))


def changes_before(work: UnitOfWork, endpoint: str, before: int | None, limit: int) -> Sequence[Found]:
    """Newest first."""
    mine = select(changes).where(changes.c.endpoint == endpoint)
    if before is not None:
        mine = mine.where(changes.c.place < before)
    return work.execute(mine.order_by(changes.c.place.desc()).limit(limit)).all()


# For the rollouts


def growing(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Endpoints with a canary that grows by itself."""
    found = select(endpoints).where(endpoints.c.next_step.is_not(None), endpoints.c.deleted.is_(None))
    return work.execute(found.order_by(endpoints.c.next_step).limit(limit)).all()


def delete(work: UnitOfWork, id: str, now: Moment) -> Sequence[str]:
    """The ids of the revisions it had."""
    work.execute(update(endpoints).where(endpoints.c.id == id).values(deleted=now, next_step=None))
    work.execute(update(revisions).where(revisions.c.endpoint == id, revisions.c.used).values(used=False))
    return work.execute(select(revisions.c.id).where(revisions.c.endpoint == id).order_by(revisions.c.number)).scalars().all()


def quarantine_reasons(work: UnitOfWork, endpoint: str) -> dict[int, str]:
    """Every revision there ever was by number, and why it may not be used; empty where it may."""
    columns = select(revisions.c.number, revisions.c.quarantined).where(revisions.c.endpoint == endpoint)
    return {row.number: row.quarantined for row in work.execute(columns)}
