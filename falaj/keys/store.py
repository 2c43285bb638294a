"""The table of signing keys. Private keys are in it only as the ring wrapped them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Row, String, Table, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork, metadata

signing = Table(
    "keys_signing",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("purpose", String(100), nullable=False),
    Column("public", LargeBinary, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("ring_version", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("retired", BigInteger),
)
# One key of a purpose signs at a time, whoever tries to make another at the same moment.
Index(
    "keys_signing_current",
    signing.c.purpose,
    unique=True,
    sqlite_where=signing.c.retired.is_(None),
    postgresql_where=signing.c.retired.is_(None),
)


def current(work: UnitOfWork, purpose: str) -> Row[Any] | None:
    return work.execute(select(signing).where(signing.c.purpose == purpose, signing.c.retired.is_(None))).first()


def of_purpose(work: UnitOfWork, purpose: str) -> Sequence[Row[Any]]:
    return work.execute(select(signing).where(signing.c.purpose == purpose).order_by(signing.c.id)).all()


def every(work: UnitOfWork) -> Sequence[Row[Any]]:
    return work.execute(select(signing).order_by(signing.c.purpose, signing.c.id)).all()


def add(work: UnitOfWork, *, id: str, purpose: str, public: bytes, wrapped: bytes, ring_version: int, created: Moment) -> None:
    row = {"id": id, "purpose": purpose, "public": public, "wrapped": wrapped, "ring_version": ring_version, "created": created}
    work.execute(insert(signing).values(row))


def retire(work: UnitOfWork, purpose: str, now: Moment) -> None:
    work.execute(update(signing).where(signing.c.purpose == purpose, signing.c.retired.is_(None)).values(retired=now))
