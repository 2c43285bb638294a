"""The table of projects' signing keys. The private part is in it only as the ring wrapped it, and goes when the key retires."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Row, String, Table, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata

Found: TypeAlias = Row[Any]

signing_keys = Table(
    "registry_signing_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("public", LargeBinary, nullable=False),
    Column("wrapped", LargeBinary),
    Column("ring_version", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("retired", BigInteger),
    Index("registry_signing_keys_project", "project", "id"),
)
# One key of a project signs at a time, whoever tries to make another at the same moment.
Index(
    "registry_signing_keys_current",
    signing_keys.c.project,
    unique=True,
    sqlite_where=signing_keys.c.retired.is_(None),
    postgresql_where=signing_keys.c.retired.is_(None),
)


def current(work: UnitOfWork, project: str) -> Found | None:
    query = select(signing_keys).where(signing_keys.c.project == project, signing_keys.c.retired.is_(None))
    return work.execute(query).first()


def of_project(work: UnitOfWork, project: str) -> Sequence[Found]:
    return work.execute(select(signing_keys).where(signing_keys.c.project == project).order_by(signing_keys.c.id)).all()


def add(work: UnitOfWork, *, id: str, project: str, public: bytes, wrapped: bytes, ring_version: int, created: Moment) -> bool:
    """Whether it is the one that signs now; false where somebody made another at the same moment."""
    row = {"id": id, "project": project, "public": public, "wrapped": wrapped, "ring_version": ring_version, "created": created}
    return insert_or_skip(work, signing_keys, row)


def rewrap(work: UnitOfWork, id: str, wrapped: bytes, ring_version: int) -> None:
    work.execute(update(signing_keys).where(signing_keys.c.id == id).values(wrapped=wrapped, ring_version=ring_version))


def retire(work: UnitOfWork, project: str, now: Moment) -> None:
    """The key that signs signs no more: its private part is forgotten."""
    mine = update(signing_keys).where(signing_keys.c.project == project, signing_keys.c.retired.is_(None))
    work.execute(mine.values(retired=now, wrapped=None))
