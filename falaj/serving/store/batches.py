"""SQL of batches: predictions for whole versions of datasets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, batches

OPEN: Final = "open"
DONE: Final = "done"


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(batches).values(row))


def find(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(batches).where(batches.c.project == project, batches.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def finish(work: UnitOfWork, id: str, made: int) -> None:
    work.execute(update(batches).where(batches.c.id == id).values(state=DONE, made=made))


def older_than(work: UnitOfWork, moment: Moment, limit: int) -> Sequence[Found]:
    return work.execute(select(batches).where(batches.c.created < moment).order_by(batches.c.created).limit(limit)).all()


def forget(work: UnitOfWork, ids: Sequence[str]) -> None:
    work.execute(delete(batches).where(batches.c.id.in_(ids)))
