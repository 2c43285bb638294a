"""SQL of pushes: rows that are durable, and in no version yet or since a little."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, delete, func, insert, or_, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, datasets, parts, pushes, spans, versions

WAITING: Final = "waiting"
DONE: Final = "done"
STUCK: Final = "stuck"
_HELD: Final = (WAITING, STUCK)  # said by name, for an index finds no others: of those that are done there may be millions
_AT_ONCE: Final = 500


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(pushes).values(row))


def find_by_key(work: UnitOfWork, dataset: str, key: str, by: str) -> Found | None:
    mine = (pushes.c.dataset == dataset, pushes.c.key == key, pushes.c.created_by == by)
    return work.execute(select(pushes).where(*mine).limit(1)).first()


def first_schema(work: UnitOfWork, dataset: str) -> str:
    """What the oldest that waits has brought; empty where none waits."""
    mine = (pushes.c.dataset == dataset, pushes.c.state == WAITING)
    found = select(parts.c.schema).join(pushes, pushes.c.part == parts.c.id).where(*mine)
    return str(work.execute(found.order_by(pushes.c.accepted, pushes.c.id).limit(1)).scalar() or "")


def held_in(work: UnitOfWork, project: str) -> tuple[int, int]:
    """How many pushes of a project are in no version, and how many bytes they are."""
    mine = (pushes.c.project == project, pushes.c.state.in_(_HELD))
    sums = select(func.count().label("number"), func.coalesce(func.sum(pushes.c.size), 0).label("size"))
    row = work.execute(sums.where(*mine)).one()
    return int(row.number), int(row.size)


def waiting(work: UnitOfWork, dataset: str, limit: int) -> Sequence[Found]:
    """The oldest, in the order they came, each with its part; and of those that are stuck as many."""
    named = (pushes.c.id.label("push"), pushes.c.accepted, pushes.c.created_by.label("by"))
    found: list[Found] = []
    for state in (WAITING, STUCK):
        mine = (pushes.c.dataset == dataset, pushes.c.state == state)
        these = select(parts, *named).join(pushes, pushes.c.part == parts.c.id).where(*mine)
        found += work.execute(these.order_by(pushes.c.accepted, pushes.c.id).limit(limit)).all()
    return sorted(found, key=lambda row: (row.accepted, row.push))


def due(work: UnitOfWork, *, before: int, tried_before: int, rows: int, size: int, limit: int) -> Sequence[Found]:
    """Datasets whose oldest push has waited long enough, or that have rows enough, longest first. Where the last attempt failed
    they wait a while longer."""
    ready = and_(pushes.c.state == WAITING, or_(pushes.c.tried.is_(None), pushes.c.tried < tried_before))
    oldest = func.min(pushes.c.accepted)
    enough = or_(oldest <= before, func.sum(pushes.c.rows) >= rows, func.sum(pushes.c.size) >= size)
    found = select(datasets.c.id, datasets.c.name, datasets.c.project).join(pushes, pushes.c.dataset == datasets.c.id)
    found = found.where(ready, datasets.c.deleted.is_(None))
    found = found.group_by(datasets.c.id, datasets.c.name, datasets.c.project).having(enough)
    return work.execute(found.order_by(oldest).limit(limit)).all()


def still_waiting(work: UnitOfWork, ids: Sequence[str]) -> int:
    """How many of these are in no version."""
    return sum(
        int(work.execute(select(func.count()).where(pushes.c.id.in_(some), pushes.c.state != DONE)).scalar() or 0)
        for some in _cut(ids)
    )


def change(work: UnitOfWork, ids: Sequence[str], **changes: Any) -> None:
    for some in _cut(ids):
        work.execute(update(pushes).where(pushes.c.id.in_(some)).values(**changes))


def tell_failed(work: UnitOfWork, dataset: str, error: str, now: Moment) -> None:
    """With all that waits of a dataset."""
    mine = (pushes.c.dataset == dataset, pushes.c.state == WAITING)
    work.execute(update(pushes).where(*mine).values(tried=now, error=error))


def standing(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """How much waits and is stuck, since when, and an error of it: a row for each state that there is."""
    mine = (pushes.c.dataset == dataset, pushes.c.state != DONE)
    sums = (
        pushes.c.state,
        func.count().label("number"),
        func.sum(pushes.c.rows).label("rows"),
        func.sum(pushes.c.size).label("size"),
        func.min(pushes.c.accepted).label("since"),
        func.max(pushes.c.error).label("error"),
    )
    return work.execute(select(*sums).where(*mine).group_by(pushes.c.state)).all()


def newest_version(work: UnitOfWork, dataset: str) -> int:
    """The last that was made of pushes which are remembered; 0 where there is none."""
    return int(work.execute(select(func.max(pushes.c.version)).where(pushes.c.dataset == dataset)).scalar() or 0)


def is_quarantined(work: UnitOfWork, dataset: str, number: int) -> bool:
    mine = (versions.c.dataset == dataset, versions.c.number == number, versions.c.line != 0)
    return work.execute(select(versions.c.id).where(*mine)).first() is not None


def give_up(work: UnitOfWork, dataset: str, states: Sequence[str], limit: int) -> Sequence[Found]:
    """The first of those in these states, which are none any more; each with the id of its part."""
    mine = select(pushes.c.id, pushes.c.rows, pushes.c.part).where(pushes.c.dataset == dataset, pushes.c.state.in_(states))
    found = work.execute(mine.limit(limit)).all()
    for some in _cut([row.id for row in found]):
        work.execute(delete(pushes).where(pushes.c.id.in_(some)))
    return found


# Letting go


def parts_of_done(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Parts of pushes whose rows are in a version by another part."""
    placed = select(spans.c.part).where(spans.c.part == parts.c.id).exists()
    gone = select(parts.c.id, parts.c.project).join(pushes, pushes.c.part == parts.c.id)
    return work.execute(gone.where(pushes.c.state == DONE, ~placed).limit(limit)).all()


def forget_old(work: UnitOfWork, before: Moment) -> None:
    """Pushes whose rows were published so long ago that nobody sends them again."""
    work.execute(delete(pushes).where(pushes.c.state == DONE, pushes.c.part.is_(None), pushes.c.done < before))


def _cut(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
