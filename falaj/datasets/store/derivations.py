"""SQL of what versions were made of."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import insert, select

from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, derivations, versions
from falaj.datasets.store.versions import PUBLISHED

LONGEST_CODE: Final = 4000


def add(work: UnitOfWork, *, version: str, dataset: str, digest: str, kind: str, code: str, inputs: str) -> None:
    row = {"version": version, "dataset": dataset, "digest": digest, "kind": kind, "code": code, "inputs": inputs}
    work.execute(insert(derivations).values(row))


def find_made(work: UnitOfWork, dataset: str, digest: str) -> Found | None:
    """The newest version with this derivation that was published and can be read."""
    joined = select(versions).join(derivations, derivations.c.version == versions.c.id)
    made = joined.where(derivations.c.dataset == dataset, derivations.c.digest == digest)
    living = made.where(versions.c.line == PUBLISHED, versions.c.pruned.is_(None))
    return work.execute(living.order_by(versions.c.number.desc()).limit(1)).first()


def of_versions(work: UnitOfWork, ids: Collection[str]) -> dict[str, Found]:
    return {row.version: row for row in work.execute(select(derivations).where(derivations.c.version.in_(ids)))}
