"""SQL of writes and their pieces."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, delete, func, insert, or_, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, parts, pieces, writes

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABANDONED: Final = "abandoned"
_AT_ONCE: Final = 500


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(writes).values(row))


def find(work: UnitOfWork, dataset: str, write: str, *, hold: bool = False) -> Found | None:
    query = select(writes).where(writes.c.id == write, writes.c.dataset == dataset)
    return work.execute(query.with_for_update() if hold else query).first()


def find_by_key(work: UnitOfWork, dataset: str, key: str, by: str, since: Moment) -> Found | None:
    """The newest of somebody's that is open, or was committed since."""
    mine = (writes.c.dataset == dataset, writes.c.key == key, writes.c.created_by == by)
    alive = or_(writes.c.state == OPEN, and_(writes.c.state == COMMITTED, writes.c.changed >= since))
    return work.execute(select(writes).where(*mine, alive).order_by(writes.c.id.desc()).limit(1)).first()


def change(work: UnitOfWork, write: str, **changes: Any) -> None:
    work.execute(update(writes).where(writes.c.id == write).values(**changes))


def add_piece(work: UnitOfWork, write: str, number: int, part: str, source: str) -> None:
    """Of a write that is held, and has no piece of that number."""
    work.execute(insert(pieces).values(write=write, number=number, part=part, source=source))


def pieces_of(work: UnitOfWork, write: str) -> Sequence[Found]:
    """In their order, each with its part."""
    found = select(parts, pieces.c.number, pieces.c.source).join(parts, parts.c.id == pieces.c.part)
    return work.execute(found.where(pieces.c.write == write).order_by(pieces.c.number)).all()


def find_piece(work: UnitOfWork, write: str, number: int) -> Found | None:
    found = select(parts, pieces.c.number, pieces.c.source).join(parts, parts.c.id == pieces.c.part)
    return work.execute(found.where(pieces.c.write == write, pieces.c.number == number)).first()


def count_pieces(work: UnitOfWork, write: str) -> int:
    return int(work.execute(select(func.count()).select_from(pieces).where(pieces.c.write == write)).scalar_one())


def forget_pieces(work: UnitOfWork, write: str, numbers: Sequence[int]) -> None:
    """The parts of these stay: they belong to a version now."""
    for start in range(0, len(numbers), _AT_ONCE):
        some = pieces.c.number.in_(numbers[start : start + _AT_ONCE])
        work.execute(delete(pieces).where(pieces.c.write == write, some))


def abandon_old(work: UnitOfWork, before: Moment) -> int:
    """Give up writes that nobody went on with since."""
    old = (writes.c.state == OPEN, writes.c.changed < before)
    return work.execute(update(writes).where(*old).values(state=ABANDONED)).rowcount


def parts_of_abandoned(work: UnitOfWork, limit: int, write: str = "") -> Sequence[Found]:
    """Parts of writes that were given up, or of this one; and those that a commit did not take."""
    given_up = select(parts.c.id, parts.c.project).join(pieces, pieces.c.part == parts.c.id)
    given_up = given_up.join(writes, writes.c.id == pieces.c.write).where(writes.c.state != OPEN)
    return work.execute((given_up.where(writes.c.id == write) if write else given_up).limit(limit)).all()
