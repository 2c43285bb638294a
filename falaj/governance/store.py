"""The generation of everything that decisions depend on: one number that changes with every change.

Caches of decisions, tokens and facts carry it in their keys, so that a revocation holds for the very next call, on every
control plane. Its lower half is random: a number that was seen inside a transaction which then failed never comes again.
"""

import secrets
from typing import Final

from sqlalchemy import BigInteger, Column, Integer, Table, insert, select, update

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata

generations = Table(
    "governance_generation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
)

_ROW: Final = 1
_STEP: Final = 1 << 32
_READ: Final = "governance.generation"
_GENERATION: Final = Prepared(select(generations.c.generation).where(generations.c.id == _ROW))


def generation(work: UnitOfWork) -> int:
    """Read once per transaction."""
    if (known := work.remembered.get(_READ)) is None:
        row = _GENERATION.first(work)
        known = work.remembered[_READ] = 0 if row is None else int(row[0])
    return known


def changed(work: UnitOfWork) -> None:
    """Begin a new generation; part of the transaction that makes it necessary."""
    work.remembered.pop(_READ, None)
    counted = (generations.c.generation // _STEP + 1) * _STEP + secrets.randbelow(_STEP)
    if work.execute(update(generations).where(generations.c.id == _ROW).values(generation=counted)).rowcount == 0:
        work.execute(insert(generations).values(id=_ROW, generation=_STEP + secrets.randbelow(_STEP)))
