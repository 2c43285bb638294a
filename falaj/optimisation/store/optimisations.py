"""SQL of optimisations."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.optimisation.store.tables import Found, optimisations

OPEN: Final = "open"
DONE: Final = "done"
ABANDONED: Final = "abandoned"


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(optimisations).values(row))


def find(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(optimisations).where(optimisations.c.project == project, optimisations.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def page(work: UnitOfWork, project: str, model: str, before: str, limit: int) -> Sequence[Found]:
    """Newest first; `model` is an id, or empty for all."""
    wanted = select(optimisations).where(optimisations.c.project == project)
    if model:
        wanted = wanted.where(optimisations.c.model == model)
    if before:
        wanted = wanted.where(optimisations.c.id < before)
    return work.execute(wanted.order_by(optimisations.c.id.desc()).limit(limit)).all()


def describe(work: UnitOfWork, id: str, found: str) -> None:
    work.execute(update(optimisations).where(optimisations.c.id == id).values(found=found))


def end(work: UnitOfWork, id: str, state: str, found: str, now: Moment) -> None:
    work.execute(update(optimisations).where(optimisations.c.id == id).values(state=state, found=found, ended=now))


def sizes(work: UnitOfWork, ids: Collection[str]) -> dict[str, int]:
    """Of the originals' files, in bytes."""
    found = work.execute(select(optimisations.c.id, optimisations.c.pinned).where(optimisations.c.id.in_(ids)))
    return {row.id: sum(file["size"] for file in json.loads(row.pinned)["files"]) for row in found}


def open_of_version(work: UnitOfWork, project: str, version_id: str) -> Sequence[Found]:
    """Held."""
    mine = (optimisations.c.project == project, optimisations.c.version_id == version_id, optimisations.c.state == OPEN)
    return work.execute(select(optimisations).where(*mine).order_by(optimisations.c.id).with_for_update()).all()


def open_with_student(work: UnitOfWork, project: str, version_id: str) -> Sequence[Found]:
    """Those that teach this version. Held."""
    mine = (optimisations.c.project == project, optimisations.c.state == OPEN, optimisations.c.pinned.contains(version_id))
    found = work.execute(select(optimisations).where(*mine).order_by(optimisations.c.id).with_for_update()).all()
    return [row for row in found if json.loads(row.pinned).get("student_version_id") == version_id]


def count_open(work: UnitOfWork, project: str) -> int:
    mine = select(func.count()).where(optimisations.c.project == project, optimisations.c.state == OPEN)
    return int(work.execute(mine).scalar_one())
