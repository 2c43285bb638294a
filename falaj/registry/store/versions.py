"""SQL of versions, their tags, their files and the documents that go with them."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.registry.operations.words import REPLAY_OF
from falaj.registry.store.models import put_tag
from falaj.registry.store.tables import Found, documents, files, models, version_tags, versions

# With the name that the model has today.
WITH_MODEL: Final = select(versions, models.c.name.label("model_name")).join(models, models.c.id == versions.c.model)
_LIVE: Final = and_(versions.c.deleted.is_(None), models.c.deleted.is_(None))
_NUMBERED: Final = WITH_MODEL.where(
    _LIVE,
    models.c.project == bindparam("project"),
    models.c.name == bindparam("name"),
    versions.c.number == bindparam("number"),
)
_BY_ID: Final = WITH_MODEL.where(_LIVE, versions.c.project == bindparam("project"), versions.c.id == bindparam("id"))
_NO_REPLAY: Final = versions.c.id.not_in(select(version_tags.c.version).where(version_tags.c.key == REPLAY_OF))
_FILE: Final = select(files).where(files.c.version == bindparam("version"), files.c.key == bindparam("key"))
_ALL_FILES: Final = select(files).where(files.c.version == bindparam("version")).order_by(files.c.position)
_DOCUMENTS: Final = select(documents).where(documents.c.version == bindparam("version"))


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(versions).values(row))


def next_number(work: UnitOfWork, model: str, wished: int, now: Moment) -> int:
    """The next number, or the wished one where that lies beyond all that were given; 0 where it does not.

    One statement, so that two who ask at the same moment get two numbers.
    """
    beyond = (models.c.last_version < wished,) if wished else ()
    number = wished if wished else models.c.last_version + 1
    given = update(models).where(models.c.id == model, *beyond).values(last_version=number, changed=now)
    return int(work.execute(given.returning(models.c.last_version)).scalar() or 0)


def find(work: UnitOfWork, project: str, model: str, number: int) -> Found | None:
    return work.execute(_NUMBERED, {"project": project, "name": model, "number": number}).first()


def find_by_id(work: UnitOfWork, project: str, id: str) -> Found | None:
    return work.execute(_BY_ID, {"project": project, "id": id}).first()


def ever_with_id(work: UnitOfWork, project: str, id: str) -> Found:
    """Deleted or not, of one that was there."""
    return work.execute(WITH_MODEL.where(versions.c.project == project, versions.c.id == id)).one()


def of_model(work: UnitOfWork, model: str, number: int) -> Found | None:
    """By the model's id, deleted or not."""
    return work.execute(WITH_MODEL.where(versions.c.model == model, versions.c.number == number)).first()


def numbers_left(work: UnitOfWork, model: str) -> set[int]:
    """The numbers of the versions that are not deleted."""
    live = select(versions.c.number).where(versions.c.model == model, versions.c.deleted.is_(None))
    return set(work.execute(live).scalars())


def ids_left(work: UnitOfWork, model: str) -> Sequence[str]:
    live = select(versions.c.id).where(versions.c.model == model, versions.c.deleted.is_(None))
    return work.execute(live.order_by(versions.c.number)).scalars().all()


def last_candidate(work: UnitOfWork, model: str) -> int:
    """The number of the newest version that is no replay, be it deleted; 0 for none."""
    return int(work.execute(select(func.max(versions.c.number)).where(versions.c.model == model, _NO_REPLAY)).scalar() or 0)


def latest(work: UnitOfWork, ids: Collection[str]) -> Sequence[Found]:
    """The newest version of each stage of each of these models, without replays."""
    newest = (
        select(versions.c.model, func.max(versions.c.number).label("number"))
        .where(versions.c.model.in_(ids), versions.c.deleted.is_(None), _NO_REPLAY)
        .group_by(versions.c.model, versions.c.stage)
        .subquery()
    )
    found = WITH_MODEL.join(newest, and_(newest.c.model == versions.c.model, newest.c.number == versions.c.number))
    return work.execute(found.order_by(versions.c.model, versions.c.number)).all()


def in_stages(work: UnitOfWork, model: str, stages: Collection[str]) -> Sequence[Found]:
    held = (versions.c.model == model, versions.c.stage.in_(stages), versions.c.deleted.is_(None))
    columns = (versions.c.id, versions.c.number, versions.c.stage, versions.c.digest)
    return work.execute(select(*columns).where(*held).order_by(versions.c.number)).all()


def update_version(work: UnitOfWork, id: str, **changes: Any) -> None:
    work.execute(update(versions).where(versions.c.id == id).values(**changes))


# Tags


def set_tag(work: UnitOfWork, id: str, key: str, value: str) -> None:
    put_tag(work, version_tags, {"version": id}, key, value)


def remove_tag(work: UnitOfWork, id: str, key: str) -> None:
    work.execute(delete(version_tags).where(version_tags.c.version == id, version_tags.c.key == key))


def tags_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(version_tags).where(version_tags.c.version.in_(ids)).order_by(version_tags.c.key)):
        found.setdefault(row.version, []).append(row)
    return found


# Files and documents


def file_key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def add_files(work: UnitOfWork, version: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """In the order they are listed in."""
    numbered = [
        {**row, "version": version, "key": file_key(row["name"]), "position": position} for position, row in enumerate(rows)
    ]
    if numbered:
        work.execute(insert(files), numbered)


def file_named(work: UnitOfWork, version: str, name: str) -> Found | None:
    return work.execute(_FILE, {"version": version, "key": file_key(name)}).first()


def is_any(work: UnitOfWork) -> bool:
    """Whether anything was ever registered, in any project."""
    return work.execute(select(versions.c.id).limit(1)).first() is not None


def files_of(work: UnitOfWork, version: str) -> Sequence[Found]:
    return work.execute(_ALL_FILES, {"version": version}).all()


def files_after(work: UnitOfWork, version: str, position: int, limit: int) -> Sequence[Found]:
    beyond = select(files).where(files.c.version == version, files.c.position > position)
    return work.execute(beyond.order_by(files.c.position).limit(limit)).all()


def add_documents(work: UnitOfWork, version: str, *, bundle: str, sbom: str) -> None:
    work.execute(insert(documents).values(version=version, bundle=bundle, sbom=sbom))


def documents_of(work: UnitOfWork, version: str) -> Found:
    return work.execute(_DOCUMENTS, {"version": version}).one()
