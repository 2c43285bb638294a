"""SQL of A/B tests."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.monitoring.store.abtest_tables import abtest_points as points
from falaj.monitoring.store.abtest_tables import abtest_units as units
from falaj.monitoring.store.abtest_tables import abtests
from falaj.monitoring.store.tables import Found

_AT_ONCE = 500


def add(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where the name is taken, or the endpoint has one that goes on."""
    return insert_or_skip(work, abtests, row)


def find(work: UnitOfWork, project: str, which: str, *, hold: bool = False) -> Found | None:
    """By name or id."""
    mine = select(abtests).where(abtests.c.project == project, or_(abtests.c.id == which, abtests.c.name == which))
    mine = mine.order_by(abtests.c.id).limit(1)
    return work.execute(mine.with_for_update() if hold else mine).first()


def hold(work: UnitOfWork, id: str) -> Found | None:
    """Of any project, for the platform's own acts."""
    return work.execute(select(abtests).where(abtests.c.id == id).with_for_update()).first()


def busy(work: UnitOfWork, endpoint: str) -> Found | None:
    """The one that goes on there."""
    return work.execute(select(abtests).where(abtests.c.endpoint_busy == endpoint)).first()


def page(work: UnitOfWork, project: str, endpoint: str | None, before: str, limit: int) -> Sequence[Found]:
    """Newest first; of one endpoint, or of all."""
    mine = select(abtests).where(abtests.c.project == project)
    if endpoint is not None:
        mine = mine.where(abtests.c.endpoint_name == endpoint)
    if before:
        mine = mine.where(abtests.c.id < before)
    return work.execute(mine.order_by(abtests.c.id.desc()).limit(limit)).all()


def running(work: UnitOfWork, after: str, limit: int) -> Sequence[Found]:
    mine = select(abtests).where(abtests.c.endpoint_busy.is_not(None), abtests.c.id > after)
    return work.execute(mine.order_by(abtests.c.id).limit(limit)).all()


def change(work: UnitOfWork, id: str, **values: Any) -> None:
    work.execute(update(abtests).where(abtests.c.id == id).values(**values))


# Units


def counted(work: UnitOfWork, abtest: str, metric: int, some: Collection[str]) -> set[str]:
    """Those of them that counted before."""
    found: set[str] = set()
    wanted = sorted(set(some))
    for start in range(0, len(wanted), _AT_ONCE):
        mine = (units.c.abtest == abtest, units.c.metric == metric, units.c.unit.in_(wanted[start : start + _AT_ONCE]))
        found |= set(work.execute(select(units.c.unit).where(*mine)).scalars())
    return found


def count(work: UnitOfWork, abtest: str, metric: int, some: Collection[str]) -> None:
    if some:
        work.execute(insert(units), [{"abtest": abtest, "metric": metric, "unit": one} for one in sorted(some)])


def forget_units(work: UnitOfWork, limit: int) -> bool:
    """Of tests that are over; whether there may be more."""
    over = select(units.c.abtest, units.c.metric, units.c.unit).join(abtests, abtests.c.id == units.c.abtest)
    found = work.execute(over.where(abtests.c.endpoint_busy.is_(None)).limit(limit)).all()
    for abtest, metric in sorted({(row.abtest, row.metric) for row in found}):
        some = [row.unit for row in found if (row.abtest, row.metric) == (abtest, metric)]
        for start in range(0, len(some), _AT_ONCE):
            mine = (units.c.abtest == abtest, units.c.metric == metric, units.c.unit.in_(some[start : start + _AT_ONCE]))
            work.execute(delete(units).where(*mine))
    return len(found) == limit


# Points


def add_point(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(points).values(row))


def points_of(work: UnitOfWork, abtest: str) -> Sequence[Found]:
    return work.execute(select(points).where(points.c.abtest == abtest).order_by(points.c.number)).all()


def count_points(work: UnitOfWork, abtest: str) -> tuple[int, int]:
    """How many there are, and the number of the last."""
    mine = select(func.count().label("there"), func.max(points.c.number).label("last")).where(points.c.abtest == abtest)
    found = work.execute(mine).one()
    return int(found.there), int(found.last or 0)


def thin_points(work: UnitOfWork, abtest: str) -> None:
    """Every other one goes; the last one stays."""
    numbers = [row.number for row in points_of(work, abtest)]
    gone = numbers[-2::-2]
    work.execute(delete(points).where(points.c.abtest == abtest, points.c.number.in_(gone)))
