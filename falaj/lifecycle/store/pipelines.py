"""SQL of pipelines, their versions and what starts them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import case, delete, exists, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.lifecycle.store.tables import Found, pipelines, runs, steps, triggers, versions

_AT_A_LOOK: Final = [column for column in triggers.columns if column.name != "content"]  # which may be much, of each


def add(work: UnitOfWork, *, id: str, project: str, name: str, by: str, now: Moment) -> bool:
    """False where the name is taken."""
    row = {"id": id, "project": project, "name": name, "taken": f"{project}/{name}", "version": 0, "digest": ""}
    return insert_or_skip(work, pipelines, {**row, "changed": now, "changed_by": by})


def find(work: UnitOfWork, project: str, name: str, *, hold: bool = False) -> Found | None:
    mine = select(pipelines).where(pipelines.c.taken == f"{project}/{name}")
    return work.execute(mine.with_for_update() if hold else mine).first()


def page(work: UnitOfWork, project: str, after: str, limit: int) -> Sequence[Found]:
    mine = (pipelines.c.project == project, pipelines.c.taken.is_not(None), pipelines.c.name > after)
    return work.execute(select(pipelines).where(*mine).order_by(pipelines.c.name).limit(limit)).all()


def names_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, str]:
    """Of those that were deleted, too."""
    found = work.execute(select(pipelines.c.id, pipelines.c.name).where(pipelines.c.id.in_(set(ids))))
    return {row.id: row.name for row in found}


def add_version(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(versions).values(row))
    newest = {"version": row["number"], "digest": row["digest"], "changed": row["created"], "changed_by": row["created_by"]}
    work.execute(update(pipelines).where(pipelines.c.id == row["pipeline"]).values(newest))


def version(work: UnitOfWork, pipeline: str, number: int) -> Found | None:
    mine = (versions.c.pipeline == pipeline, versions.c.number == number)
    return work.execute(select(versions).where(*mine)).first()


def let_go(work: UnitOfWork, id: str) -> None:
    """Its runs and what they ran stay on record."""
    work.execute(delete(triggers).where(triggers.c.pipeline == id))
    work.execute(update(pipelines).where(pipelines.c.id == id).values(taken=None))


def standing(work: UnitOfWork, ids: Collection[str]) -> dict[str, tuple[str, int]]:
    """Of each pipeline that has any: the state of its newest run, which may be that it asks, and how many are not over."""
    newest = select(func.max(runs.c.id)).where(runs.c.pipeline.in_(set(ids))).group_by(runs.c.pipeline)
    asks = exists().where(steps.c.run == runs.c.id, steps.c.state == "asking")
    shown = select(runs.c.pipeline, case((asks, "asking"), else_=runs.c.state).label("state")).where(runs.c.id.in_(newest))
    last = {row.pipeline: row.state for row in work.execute(shown)}
    counted = select(runs.c.pipeline, func.count().label("live")).where(runs.c.ended.is_(None), runs.c.pipeline.in_(set(ids)))
    live = {row.pipeline: row.live for row in work.execute(counted.group_by(runs.c.pipeline))}
    return {id: (state, live.get(id, 0)) for id, state in last.items()}


# What starts them


def put_trigger(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    drop_trigger(work, row["pipeline"], row["name"])
    work.execute(insert(triggers).values(row))


def drop_trigger(work: UnitOfWork, pipeline: str, name: str) -> bool:
    return work.execute(delete(triggers).where(triggers.c.pipeline == pipeline, triggers.c.name == name)).rowcount == 1


def trigger(work: UnitOfWork, id: str, *, hold: bool = False) -> Found | None:
    mine = select(triggers).where(triggers.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def triggers_of(work: UnitOfWork, pipeline: str) -> Sequence[Found]:
    """Without what they were called with."""
    return work.execute(select(*_AT_A_LOOK).where(triggers.c.pipeline == pipeline).order_by(triggers.c.name)).all()


def all_triggers(work: UnitOfWork) -> Sequence[Found]:
    """Without what they were called with."""
    return work.execute(select(*_AT_A_LOOK).order_by(triggers.c.id)).all()


def count_triggers(work: UnitOfWork, project: str) -> int:
    return int(work.execute(select(func.count()).select_from(triggers).where(triggers.c.project == project)).scalar_one())


def change_trigger(work: UnitOfWork, id: str, **columns: Any) -> None:
    work.execute(update(triggers).where(triggers.c.id == id).values(columns))
