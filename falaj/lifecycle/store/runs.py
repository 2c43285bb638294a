"""SQL of runs, of their steps and of what they were sent."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import CTE, bindparam, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import tokens
from falaj.jobs.store.tokens import KIND
from falaj.lifecycle.store.tables import Found, events, pipelines, runs, steps, versions

MOST_MAKERS: Final = 100
_KEY: Final = ("run", "name", "item")
_ITS_VERSION: Final = (versions.c.pipeline == runs.c.pipeline) & (versions.c.number == runs.c.version)


def _upsert(module: Any) -> Any:
    statement = module.insert(steps).values({column.name: bindparam(column.name) for column in steps.columns})
    columns = {column.name: statement.excluded[column.name] for column in steps.columns if column.name not in _KEY}
    return statement.on_conflict_do_update(index_elements=_KEY, set_=columns)


_PUT_STEPS: Final = Prepared({"sqlite": _upsert(sqlite), "postgresql": _upsert(postgresql)})


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(runs).values(row))


def find(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(runs).where(runs.c.project == project, runs.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def find_by_end(work: UnitOfWork, project: str, end: str) -> Sequence[str]:
    """The ids of at most two runs that end so, newest first."""
    mine = select(runs.c.id).where(runs.c.project == project, runs.c.id.endswith(end, autoescape=True))
    return work.execute(mine.order_by(runs.c.id.desc()).limit(2)).scalars().all()


def by_id(work: UnitOfWork, id: str) -> Found | None:
    return work.execute(select(runs).where(runs.c.id == id)).first()


def page(work: UnitOfWork, project: str, pipeline: str, state: str, before: str, limit: int) -> Sequence[Found]:
    """Newest first; `pipeline` is a name, also of one that was deleted."""
    mine = select(runs).where(runs.c.project == project)
    if pipeline:
        named = select(pipelines.c.id).where(pipelines.c.project == project, pipelines.c.name == pipeline)
        mine = mine.where(runs.c.pipeline.in_(named))
    if state:
        mine = mine.where(runs.c.state == state)
    if before:
        mine = mine.where(runs.c.id < before)
    return work.execute(mine.order_by(runs.c.id.desc()).limit(limit)).all()


def live(work: UnitOfWork) -> dict[str, Found]:
    """Those that are not over: of which project each is, and how often it was changed."""
    found = work.execute(select(runs.c.id, runs.c.project, runs.c.changed).where(runs.c.ended.is_(None)).order_by(runs.c.id))
    return {row.id: row for row in found}


def is_live(work: UnitOfWork, id: str) -> bool:
    return work.execute(select(runs.c.id).where(runs.c.id == id, runs.c.ended.is_(None))).first() is not None


def count_live(work: UnitOfWork, project: str) -> int:
    mine = select(func.count()).select_from(runs).where(runs.c.project == project, runs.c.ended.is_(None))
    return int(work.execute(mine).scalar_one())


def kept_by_live(work: UnitOfWork, project: str) -> int:
    """Characters."""
    mine = select(func.coalesce(func.sum(runs.c.kept), 0)).where(runs.c.project == project, runs.c.ended.is_(None))
    return int(work.execute(mine).scalar_one())


def runs_behind(work: UnitOfWork, token: str, label: str) -> int:
    """How many tokens with this label of ours it was made with, at any remove."""
    line = _line(token)
    mine = select(func.count()).select_from(line).where(line.c.kind == KIND, line.c.label == label)
    return int(work.execute(mine).scalar_one())


def options_behind(work: UnitOfWork, token: str) -> Sequence[str]:
    """How the runs were asked for that are under way and whose token it was made with, at any remove."""
    line = _line(token)
    mine = select(runs.c.options).join(line, line.c.id == runs.c.token).where(runs.c.ended.is_(None))
    return work.execute(mine).scalars().all()


def starters_behind(work: UnitOfWork, token: str) -> set[str]:
    """Who stands behind the runs whose token it was made with, at any remove."""
    line = _line(token)
    found = work.execute(select(runs.c.behind).join(line, line.c.id == runs.c.token)).scalars()
    return {one for behind in found for one in json.loads(behind)}


def authors_behind(work: UnitOfWork, token: str) -> set[str]:
    """Who stands behind what the runs do whose token it was made with, at any remove, where one of these started by itself:
    nobody looked at it then who answers for it."""
    line = _line(token)
    mine = select(runs.c.trigger, versions.c.behind).join(line, line.c.id == runs.c.token).join(versions, _ITS_VERSION)
    found = work.execute(mine).all()
    return {one for row in found for one in json.loads(row.behind)} if any(row.trigger for row in found) else set()


def _line(token: str) -> CTE:
    """The token, and those that it was made with."""
    columns = (tokens.c.id, tokens.c.parent, tokens.c.kind, tokens.c.label)
    line = select(*columns).where(tokens.c.id == token).cte("line", recursive=True)
    return line.union(select(*columns).join(line, tokens.c.id == line.c.parent))


def change(work: UnitOfWork, id: str, known: int | None = None, **columns: Any) -> bool:
    """Whoever decided by what they saw gives the count that they `know`: false where somebody else was faster."""
    which = runs.c.id == id if known is None else (runs.c.id == id) & (runs.c.changed == known)
    return work.execute(update(runs).where(which).values(changed=runs.c.changed + 1, **columns)).rowcount == 1


# Steps


def steps_of(work: UnitOfWork, run: str) -> Sequence[Found]:
    return work.execute(select(steps).where(steps.c.run == run).order_by(steps.c.name, steps.c.item)).all()


def questions(work: UnitOfWork, ids: Collection[str]) -> dict[str, str]:
    """Of each run that waits for somebody, what one of its steps asks."""
    mine = (steps.c.run.in_(set(ids)), steps.c.state == "asking")
    return {row.run: row.words for row in work.execute(select(steps.c.run, steps.c.words).where(*mine))}


def step(work: UnitOfWork, run: str, name: str, item: int) -> Found | None:
    mine = (steps.c.run == run, steps.c.name == name, steps.c.item == item)
    return work.execute(select(steps).where(*mine)).first()


def put_steps(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """New ones, or what became of those that are there."""
    _PUT_STEPS.run_many(work, rows)


def tell(work: UnitOfWork, run: str, name: str, item: int, told: str) -> None:
    mine = (steps.c.run == run, steps.c.name == name, steps.c.item == item)
    work.execute(update(steps).where(*mine).values(told=told))


def done_before(work: UnitOfWork, project: str, digest: str, by: str, limit: int) -> Sequence[Found]:
    """Steps that did the same, each with who started its run, and who wrote what it did and how; the newest of that person
    first."""
    whose = (runs.c.started_by, versions.c.created_by, versions.c.definition)
    mine = (steps.c.project == project, steps.c.digest == digest, steps.c.state == "done")
    found = select(steps, *whose).join(runs, runs.c.id == steps.c.run).join(versions, _ITS_VERSION).where(*mine)
    own = (runs.c.started_by == by) & (versions.c.created_by == by)
    return work.execute(found.order_by(own.desc(), steps.c.ended.desc()).limit(limit)).all()


def makers_of(work: UnitOfWork, project: str, made: str, created: int) -> Sequence[Found]:
    """The steps that handed it on and were under way when it came to be, the first to end first: whoever names a version that
    others make later, or made before, did not make it."""
    mine = (steps.c.project == project, steps.c.made == made, steps.c.cached == "")
    then = (steps.c.begun <= created, steps.c.ended >= created)
    return work.execute(select(steps).where(*mine, *then).order_by(steps.c.ended).limit(MOST_MAKERS)).all()


def handing_on(work: UnitOfWork, project: str, made: str, since: int, limit: int) -> Sequence[str]:
    """The ids of runs whose steps handed it on after it came to be, newest first."""
    mine = (steps.c.project == project, steps.c.made == made, steps.c.ended >= since)
    return work.execute(select(steps.c.run).where(*mine).distinct().order_by(steps.c.run.desc()).limit(limit)).scalars().all()


# What they are sent


def send(work: UnitOfWork, *, id: str, run: str, name: str, content: str, by: str) -> None:
    work.execute(insert(events).values(id=id, run=run, name=name, content=content, sent_by=by))


def sent_to(work: UnitOfWork, run: str) -> Sequence[Found]:
    return work.execute(select(events).where(events.c.run == run).order_by(events.c.id)).all()


def sent_so_far(work: UnitOfWork, run: str) -> tuple[int, int]:
    """How many there are, and how many characters."""
    size = func.coalesce(func.sum(func.length(events.c.content)), 0)
    mine = select(func.count().label("many"), size.label("size")).select_from(events).where(events.c.run == run)
    found = work.execute(mine).one()
    return int(found.many), int(found.size)
