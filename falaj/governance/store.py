"""The generation of everything that decisions depend on: one number that changes with every change.

Caches of decisions, tokens and facts carry it in their keys, so that a revocation holds for the very next call, on every
control plane. Its lower half is random: a number that was seen inside a transaction which then failed never comes again.
"""

import secrets
from typing import Final

from sqlalchemy import BigInteger, Column, Integer, Table, insert, update

from falaj.database.work import UnitOfWork, metadata

generations = Table(
    "governance_generation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
)

_ROW: Final = 1
_STEP: Final = 1 << 32
# Run for every call: written out, because building and compiling the same statement costs more than running it.
_READ: Final = "SELECT generation FROM governance_generation WHERE id = 1"


def generation(work: UnitOfWork) -> int:
    """Read once per transaction."""
    if (known := work.remembered.get(_READ)) is None:
        row = work.connection.exec_driver_sql(_READ).first()
        known = work.remembered[_READ] = 0 if row is None else int(row[0])
    return known


def changed(work: UnitOfWork) -> None:
    """Begin a new generation; part of the transaction that makes it necessary."""
    work.remembered.pop(_READ, None)
    counted = (generations.c.generation // _STEP + 1) * _STEP + secrets.randbelow(_STEP)
    if work.execute(update(generations).where(generations.c.id == _ROW).values(generation=counted)).rowcount == 0:
        work.execute(insert(generations).values(id=_ROW, generation=_STEP + secrets.randbelow(_STEP)))
