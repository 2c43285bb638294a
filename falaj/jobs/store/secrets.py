"""The SQL of projects' secrets."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, secrets


def put(work: UnitOfWork, row: dict[str, Any]) -> None:
    forget(work, row["project"], row["name"])
    work.execute(insert(secrets), row)


def put_first(work: UnitOfWork, row: dict[str, Any]) -> None:
    """Unless there is one."""
    insert_or_skip(work, secrets, row)


def of_project(work: UnitOfWork, project: str) -> Sequence[Found]:
    return work.execute(select(secrets).where(secrets.c.project == project).order_by(secrets.c.name)).all()


def named(work: UnitOfWork, project: str, names: Iterable[str]) -> Sequence[Found]:
    return work.execute(select(secrets).where(secrets.c.project == project, secrets.c.name.in_(list(names)))).all()


def rewrap(work: UnitOfWork, project: str, name: str, wrapped: bytes, version: int) -> None:
    row = (secrets.c.project == project) & (secrets.c.name == name)
    work.execute(update(secrets).where(row).values(wrapped=wrapped, ring_version=version))


def forget(work: UnitOfWork, project: str, name: str) -> bool:
    return work.execute(delete(secrets).where(secrets.c.project == project, secrets.c.name == name)).rowcount > 0


def forget_all(work: UnitOfWork, project: str) -> None:
    work.execute(delete(secrets).where(secrets.c.project == project))
