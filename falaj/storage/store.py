"""The tables of storage: blobs with their wrapped keys, who refers to them, whose every object is, and the projects' keys.

`storage_objects` is the arbiter between an upload that ends and the garbage collector: each inserts the object's id, one as
`kept`, the other as `condemned`, and the id is the primary key, so only one of them can be right.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    UniqueConstraint,
    and_,
    delete,
    func,
    select,
    update,
)

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

KEPT: Literal["kept"] = "kept"
CONDEMNED: Literal["condemned"] = "condemned"

# How an object is sealed under its data key: in chunks, by `sealed.py`, or by whoever made it, by Parquet's own encryption.
CHUNKS: Literal["chunks"] = "chunks"
PARQUET: Literal["parquet"] = "parquet"

blobs = Table(
    "storage_blobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("storage", String(100), nullable=False),
    Column("object", String(32), nullable=False, unique=True),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("media_type", String(100), nullable=False),
    Column("name", String(200), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("key_version", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("sealing", String(10), nullable=False, server_default=CHUNKS),
    UniqueConstraint("project", "digest", "zone", name="storage_blobs_content"),
    Index("storage_blobs_listing", "project", "id"),
    Index("storage_blobs_version", "project", "key_version"),
)

references = Table(
    "storage_references",
    metadata,
    Column("blob", String(32), ForeignKey("storage_blobs.id"), primary_key=True),
    Column("kind", String(50), primary_key=True),
    Column("owner", String(100), primary_key=True),
    Column("created", BigInteger, nullable=False),
    Index("storage_references_owner", "kind", "owner"),
)

objects = Table(
    "storage_objects",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("storage", String(100), nullable=False),
    Column("state", String(10), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("removed", BigInteger),
    Index("storage_objects_state", "state", "removed"),
)

keys = Table(
    "storage_keys",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("rotations_asked", Integer, nullable=False),
    Column("rotations_done", Integer, nullable=False),
    Column("shredded", BigInteger),
    Column("destroyed", BigInteger),
)


# Blobs and references


def find_content(work: UnitOfWork, project: str, digest: str, zone: str) -> Row[Any] | None:
    """The blob with this content, held against a release of its last reference until the transaction ends."""
    same = and_(blobs.c.project == project, blobs.c.digest == digest, blobs.c.zone == zone)
    return work.execute(select(blobs).where(same).with_for_update()).first()


def find_object(work: UnitOfWork, project: str, object_id: str) -> Row[Any] | None:
    """The blob that this object is."""
    return work.execute(select(blobs).where(blobs.c.project == project, blobs.c.object == object_id)).first()


def holds(work: UnitOfWork, project: str, zone: str) -> bool:
    """Whether the project has any blob in this zone."""
    return work.execute(select(blobs.c.id).where(blobs.c.project == project, blobs.c.zone == zone).limit(1)).first() is not None


def find_blob(work: UnitOfWork, project: str, blob: str, *, hold: bool = False) -> Row[Any] | None:
    query = select(blobs).where(blobs.c.id == blob, blobs.c.project == project)
    return work.execute(query.with_for_update() if hold else query).first()


def list_blobs(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Row[Any]]:
    mine = select(blobs).where(blobs.c.project == project, blobs.c.id > after)
    return work.execute(mine.order_by(blobs.c.id).limit(limit)).all()


def refer(work: UnitOfWork, blob: str, kind: str, owner: str, now: Moment) -> None:
    insert_or_skip(work, references, {"blob": blob, "kind": kind, "owner": owner, "created": now})


def referred(work: UnitOfWork, kind: str, owner: str) -> Sequence[str]:
    """The blobs an owner refers to, in one order for everybody, so that two who lock them do not wait for each other."""
    mine = and_(references.c.kind == kind, references.c.owner == owner)
    return work.execute(select(references.c.blob).where(mine).order_by(references.c.blob)).scalars().all()


def held(work: UnitOfWork, project: str, kind: str, owner: str) -> Sequence[str]:
    """The project's blobs that an owner refers to, as they are."""
    mine = and_(references.c.kind == kind, references.c.owner == owner, blobs.c.project == project)
    return work.execute(select(blobs.c.id).join(references, references.c.blob == blobs.c.id).where(mine)).scalars().all()


def drop_reference(work: UnitOfWork, blob: str, kind: str, owner: str) -> bool:
    mine = and_(references.c.blob == blob, references.c.kind == kind, references.c.owner == owner)
    return work.execute(delete(references).where(mine)).rowcount == 1


def is_referred(work: UnitOfWork, blob: str, kind: str = "") -> bool:
    """By anybody, or by an owner of this kind."""
    mine = select(references.c.blob).where(references.c.blob == blob)
    return work.execute((mine.where(references.c.kind == kind) if kind else mine).limit(1)).first() is not None


def remove_blob(work: UnitOfWork, row: Row[Any], now: Moment) -> None:
    """Forget the blob and its wrapped key; its object is condemned."""
    work.execute(delete(references).where(references.c.blob == row.id))
    work.execute(delete(blobs).where(blobs.c.id == row.id))
    work.execute(update(objects).where(objects.c.id == row.object).values(state=CONDEMNED, since=now))


def remove_project(work: UnitOfWork, project: str, now: Moment) -> int:
    mine = select(blobs.c.id).where(blobs.c.project == project)
    work.execute(delete(references).where(references.c.blob.in_(mine)))
    condemned = select(blobs.c.object).where(blobs.c.project == project)
    work.execute(update(objects).where(objects.c.id.in_(condemned)).values(state=CONDEMNED, since=now))
    return work.execute(delete(blobs).where(blobs.c.project == project)).rowcount


# Objects


def enter_object(work: UnitOfWork, object_id: str, storage: str, state: Literal["kept", "condemned"], now: Moment) -> bool:
    return insert_or_skip(work, objects, {"id": object_id, "storage": storage, "state": state, "since": now})


def known_objects(work: UnitOfWork, ids: Collection[str]) -> set[str]:
    return set(work.execute(select(objects.c.id).where(objects.c.id.in_(ids))).scalars())


def to_remove(work: UnitOfWork, storages: Collection[str], limit: int) -> Sequence[Row[Any]]:
    due = and_(objects.c.state == CONDEMNED, objects.c.removed.is_(None), objects.c.storage.in_(storages))
    return work.execute(select(objects.c.id, objects.c.storage).where(due).order_by(objects.c.since).limit(limit)).all()


def mark_removed(work: UnitOfWork, ids: Collection[str], now: Moment) -> None:
    work.execute(update(objects).where(objects.c.id.in_(ids)).values(removed=now))


def forget_removed(work: UnitOfWork, before: Moment) -> int:
    return work.execute(delete(objects).where(objects.c.state == CONDEMNED, objects.c.removed < before)).rowcount


# Projects' keys


def hold_key(work: UnitOfWork, project: str) -> Row[Any]:
    """The project's row, made where there is none, held against shredding until the transaction ends."""
    query = select(keys).where(keys.c.project == project).with_for_update(read=True)
    if (row := work.execute(query).first()) is None:
        insert_or_skip(work, keys, {"project": project, "version": 1, "rotations_asked": 0, "rotations_done": 0})
        row = work.execute(query).one()
    return row


def find_key(work: UnitOfWork, project: str) -> Row[Any] | None:
    return work.execute(select(keys).where(keys.c.project == project)).first()


def ask_rotation(work: UnitOfWork, project: str) -> None:
    work.execute(update(keys).where(keys.c.project == project).values(rotations_asked=keys.c.rotations_asked + 1))


def rotations_due(work: UnitOfWork, limit: int) -> Sequence[Row[Any]]:
    due = and_(keys.c.rotations_done < keys.c.rotations_asked, keys.c.shredded.is_(None))
    return work.execute(select(keys).where(due).limit(limit)).all()


def mark_rotated(work: UnitOfWork, project: str, version: int, asked: int) -> None:
    """The rotation answers everything that was asked for when it began."""
    work.execute(update(keys).where(keys.c.project == project).values(version=version, rotations_done=asked))


def mark_shredded(work: UnitOfWork, project: str, now: Moment) -> None:
    work.execute(update(keys).where(keys.c.project == project, keys.c.shredded.is_(None)).values(shredded=now))


def keys_to_destroy(work: UnitOfWork, limit: int) -> Sequence[str]:
    due = and_(keys.c.shredded.is_not(None), keys.c.destroyed.is_(None))
    return work.execute(select(keys.c.project).where(due).limit(limit)).scalars().all()


def mark_destroyed(work: UnitOfWork, project: str, now: Moment) -> None:
    work.execute(update(keys).where(keys.c.project == project).values(destroyed=now))


def count_behind(work: UnitOfWork, project: str, version: int) -> int:
    behind = and_(blobs.c.project == project, blobs.c.key_version < version)
    return int(work.execute(select(func.count()).select_from(blobs).where(behind)).scalar_one())


def behind(work: UnitOfWork, after: str, limit: int) -> Sequence[Row[Any]]:
    """Blobs whose data key an older version of their project's key wraps."""
    columns = (blobs.c.id, blobs.c.project, blobs.c.object, blobs.c.wrapped, blobs.c.key_version)
    query = select(*columns).join(keys, and_(keys.c.project == blobs.c.project, blobs.c.key_version < keys.c.version))
    return work.execute(query.where(blobs.c.id > after, keys.c.shredded.is_(None)).order_by(blobs.c.id).limit(limit)).all()


def rewrap(work: UnitOfWork, blob: str, old_version: int, version: int, wrapped: bytes) -> bool:
    unchanged = and_(blobs.c.id == blob, blobs.c.key_version == old_version)
    return work.execute(update(blobs).where(unchanged).values(key_version=version, wrapped=wrapped)).rowcount == 1


def add_blob(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    return insert_or_skip(work, blobs, row)
