"""The SQL of sources."""

from typing import Any

from sqlalchemy import insert, select

from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, sources


def add(work: UnitOfWork, row: dict[str, Any]) -> None:
    work.execute(insert(sources), row)


def find(work: UnitOfWork, project: str, digest: str) -> Found | None:
    return work.execute(select(sources).where(sources.c.project == project, sources.c.digest == digest)).first()
