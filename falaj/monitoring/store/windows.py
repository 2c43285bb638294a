"""SQL of windows of traffic, and of the pieces they are made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.monitoring.store.tables import Found, pieces, windows


def add_piece(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(pieces).values(row))


def due(work: UnitOfWork, before: Moment, limit: int, but: Collection[str] = (), old: int = 0) -> Sequence[Found]:
    """Windows that were over by a moment: monitor, revision and start, the oldest first; none of the monitors in `but`. Those
    that were over by `old` come late, in many parts perhaps: they are due once nothing more came of them since `before`."""
    one = (pieces.c.until, pieces.c.monitor, pieces.c.revision, pieces.c.at)  # as they lie in the index: nothing else is read
    wanted = select(*one[1:]).where(pieces.c.until <= before, pieces.c.monitor.not_in(sorted(but))).group_by(*one)
    wanted = wanted.having(or_(pieces.c.until > old, func.max(pieces.c.came) <= before))
    return work.execute(wanted.order_by(*one).limit(limit)).all()


def pieces_of(work: UnitOfWork, monitor: str, revision: int, at: int) -> Sequence[Found]:
    mine = (pieces.c.monitor == monitor, pieces.c.revision == revision, pieces.c.at == at)
    return work.execute(select(pieces).where(*mine).order_by(pieces.c.id)).all()


def all_pieces(work: UnitOfWork, monitor: str, revision: int | None = None) -> Sequence[Found]:
    mine = select(pieces).where(pieces.c.monitor == monitor)
    return work.execute(mine if revision is None else mine.where(pieces.c.revision == revision)).all()


def drop_pieces(work: UnitOfWork, ids: Collection[str]) -> None:
    work.execute(delete(pieces).where(pieces.c.id.in_(ids)))


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    """In place of one that began at the same moment, when windows had another length."""
    mine = (windows.c.monitor == row["monitor"], windows.c.revision == row["revision"], windows.c.at == row["at"])
    work.execute(delete(windows).where(*mine))
    work.execute(insert(windows).values(row))


def last(work: UnitOfWork, monitor: str, revision: int, before: int, limit: int, of: str = "") -> Sequence[Found]:
    """Newest first; `before` is a start, 0 for no bound. `of` is what their keys begin with: those of one reference alone."""
    wanted = select(windows).where(windows.c.monitor == monitor, windows.c.revision == revision)
    if of:
        wanted = wanted.where(windows.c.key.startswith(of, autoescape=True))
    if before:
        wanted = wanted.where(windows.c.at < before)
    return work.execute(wanted.order_by(windows.c.at.desc()).limit(limit)).all()


def that_began(work: UnitOfWork, monitor: str, revision: int, starts: Collection[int]) -> Sequence[Found]:
    """Those that began then, newest first, without what came out of them: when each began, by which plan it was counted, and
    where its counts are."""
    light = select(windows.c.at, windows.c.key, windows.c.blob)
    mine = (windows.c.monitor == monitor, windows.c.revision == revision, windows.c.at.in_(sorted(starts)))
    return work.execute(light.where(*mine).order_by(windows.c.at.desc())).all()


def counts(work: UnitOfWork, monitors: Collection[str]) -> dict[tuple[str, int], int]:
    """How many windows there are of each revision."""
    wanted = select(windows.c.monitor, windows.c.revision, func.count().label("number"))
    found = work.execute(wanted.where(windows.c.monitor.in_(monitors)).group_by(windows.c.monitor, windows.c.revision))
    return {(row.monitor, row.revision): int(row.number) for row in found}


def looked_at(work: UnitOfWork, monitor: str, revision: int, after: int, most: int) -> int:
    """How many windows with rows began later than that, counted up to `most`."""
    mine = (windows.c.monitor == monitor, windows.c.revision == revision, windows.c.at > after, windows.c.rows > 0)
    return len(work.execute(select(windows.c.at).where(*mine).limit(most)).all())


def from_on(work: UnitOfWork, monitor: str, at: int) -> Sequence[Found]:
    """Those that began then or later, of all revisions."""
    return work.execute(select(windows).where(windows.c.monitor == monitor, windows.c.at >= at)).all()


def older_than(work: UnitOfWork, moment: Moment, limit: int) -> Sequence[Found]:
    return work.execute(select(windows).where(windows.c.until < moment).order_by(windows.c.until).limit(limit)).all()


def drop(work: UnitOfWork, rows: Sequence[Found]) -> None:
    for row in rows:
        mine = (windows.c.monitor == row.monitor, windows.c.revision == row.revision, windows.c.at == row.at)
        work.execute(delete(windows).where(*mine))
