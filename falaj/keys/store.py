"""The table of signing keys. Private keys are in it only as the ring wrapped them.

`endorsement` is what the key `endorsed_by` signed about this one when it was replaced by it; the first of a purpose has none.
"""

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
    Column("endorsed_by", String(32)),
    Column("endorsement", LargeBinary),
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


def add(
    work: UnitOfWork,
    *,
    id: str,
    purpose: str,
    public: bytes,
    wrapped: bytes,
    ring_version: int,
    created: Moment,
    endorsed_by: str | None,
    endorsement: bytes | None,
) -> None:
    row = {"id": id, "purpose": purpose, "public": public, "wrapped": wrapped, "ring_version": ring_version, "created": created}
    work.execute(insert(signing).values(row | {"endorsed_by": endorsed_by, "endorsement": endorsement}))


def retire(work: UnitOfWork, id: str, now: Moment) -> bool:
    """Whether it was still the one that signs."""
    still_current = update(signing).where(signing.c.id == id, signing.c.retired.is_(None))
    return bool(work.execute(still_current.values(retired=now)).rowcount)
