"""SQL of what attempts used and cost, and of how full and busy hosts were. Metering is kept for ever."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from sqlalchemy import delete, func, insert, select

from falaj.base.clock import Moment
from falaj.database.inserts import prepared_insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, metering, samples, utilisation

By = Literal["project", "user", "queue", "node"]
_ADD: Final = Prepared(insert(metering))
_ADD_UTILISATION: Final = prepared_insert_or_skip(utilisation)
_ADD_SAMPLE: Final = prepared_insert_or_skip(samples)
_SUMMED: Final = (
    *("cpu_seconds_asked", "cpu_seconds", "memory_mib_seconds", "gpu_seconds", "gpu_busy_seconds", "energy_joules", "cost"),
)


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD.run_many(work, rows)


def sums(work: UnitOfWork, by: By, *, since: Moment, until: Moment, project: str = "") -> Sequence[Found]:
    """`name` (an id, for projects and users), every sum, and `jobs`: of attempts that ended in the span."""
    columns = [func.sum(metering.c[name]).label(name) for name in _SUMMED]
    counted = func.count(func.distinct(metering.c.job)).label("jobs")
    found = select(metering.c[by].label("name"), *columns, counted).where(
        metering.c.ended >= int(since), metering.c.ended < int(until)
    )
    if project:
        found = found.where(metering.c.project == project)
    return work.execute(found.group_by(metering.c[by]).order_by(metering.c[by])).all()


def spent_by_queue(work: UnitOfWork, since: Moment) -> dict[str, int]:
    cost = func.sum(metering.c.cost)
    found = select(metering.c.queue, cost.label("cost")).where(metering.c.ended >= int(since)).group_by(metering.c.queue)
    return {row.queue: int(row.cost) for row in work.execute(found.having(cost > 0))}


def of_job(work: UnitOfWork, project: str, job: str, attempts: Sequence[str]) -> Sequence[Found]:
    mine = select(metering).where(metering.c.attempt.in_(attempts), metering.c.project == project, metering.c.job == job)
    return work.execute(mine).all()


# Utilisation, minute by minute


def add_utilisation(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """A minute that was written before stays as it is."""
    _ADD_UTILISATION.run_many(work, rows)


def utilisation_between(work: UnitOfWork, since: Moment, until: Moment, *, node: str = "", every: int = 1) -> Sequence[Found]:
    """Oldest first, of the platform or of one node; `every` is a number of microseconds that moments are multiples of."""
    found = select(utilisation).where(
        utilisation.c.node == node, utilisation.c.at >= int(since), utilisation.c.at < int(until), utilisation.c.at % every == 0
    )
    return work.execute(found.order_by(utilisation.c.at)).all()


def thin_utilisation(work: UnitOfWork, before: Moment, keep_every: int, since: Moment) -> None:
    """Of what lies between the two, keep the moments that are multiples of `keep_every`."""
    at = utilisation.c.at
    work.execute(delete(utilisation).where(at >= int(since), at < int(before), at % keep_every != 0))


# Samples of jobs


def add_samples(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD_SAMPLE.run_many(work, rows)


def samples_of(work: UnitOfWork, job: str) -> Sequence[Found]:
    """Oldest first. The caller has found the job in its project."""
    return work.execute(select(samples).where(samples.c.job == job).order_by(samples.c.at)).all()
