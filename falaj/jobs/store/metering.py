"""SQL of what attempts used and cost, and of how full and busy hosts were. Metering is kept for ever."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from sqlalchemy import and_, case, delete, func, insert, select

from falaj.base.clock import SECOND, Moment
from falaj.database.inserts import prepared_insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import Found, card_utilisation, jobs, metering, owner_utilisation, samples, utilisation

By = Literal["project", "user", "queue", "node"]
_ADD: Final = Prepared(insert(metering))
_ADD_UTILISATION: Final = prepared_insert_or_skip(utilisation)
_ADD_CARDS: Final = prepared_insert_or_skip(card_utilisation)
_ADD_OWNERS: Final = prepared_insert_or_skip(owner_utilisation)
_AVERAGED: Final = ("cpus", "cpus_held", "cpus_busy", "gpus", "gpus_held", "gpus_busy")
_HELD: Final = ("cpus_held", "cpus_busy", "gpus_held", "gpus_busy")
_ADD_SAMPLE: Final = prepared_insert_or_skip(samples)
_SUMMED: Final = (
    *(
        "cpu_seconds_asked",
        "cpu_seconds",
        "memory_mib_seconds_asked",
        "memory_mib_seconds",
        "gpu_seconds",
        "gpu_busy_seconds",
        "energy_joules",
        "cost",
    ),
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
    """Oldest first, of the platform or of one node: the means of spans of `every` microseconds, the last of which may still go
    on; and the most that waited at once."""
    at = utilisation.c.at
    mine = (utilisation.c.node == node, at >= int(since), at < int(until))
    minutes = select(utilisation, (at - at % every).label("span")).where(*mine).subquery()
    means = [func.avg(minutes.c[name]).label(name) for name in _AVERAGED]
    found = select(minutes.c.span.label("at"), *means, func.max(minutes.c.waiting).label("waiting"))
    return work.execute(found.group_by(minutes.c.span).order_by(minutes.c.span)).all()


def thin_utilisation(work: UnitOfWork, before: Moment, keep_every: int, since: Moment) -> None:
    """Of what lies between the two, keep the moments that are multiples of `keep_every`."""
    for table in (utilisation, card_utilisation, owner_utilisation):
        at = table.c.at
        work.execute(delete(table).where(at >= int(since), at < int(before), at % keep_every != 0))


def add_card_utilisation(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD_CARDS.run_many(work, rows)


def add_owner_utilisation(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD_OWNERS.run_many(work, rows)


def utilisation_of(
    work: UnitOfWork, kind: Literal["queue", "project", "node"], name: str, since: Moment, until: Moment, every: int
) -> Sequence[Found]:
    """The same of a queue, a project (its id) or a node, against all that was there, or what the node has. Minutes that it
    was at rest are not written, and count all the same."""
    whole, one = utilisation.alias("whole"), (utilisation if kind == "node" else owner_utilisation).alias("one")
    mine = one.c.node == name if kind == "node" else and_(one.c.kind == kind, one.c.name == name)
    there = [(one if kind == "node" else whole).c[part] for part in ("cpus", "gpus")]
    its = [func.coalesce(one.c[part], 0).label(part) for part in (*_HELD, "waiting")]
    at = whole.c.at
    minutes = (
        select((at - at % every).label("span"), *there, *its)
        .select_from(whole.outerjoin(one, and_(one.c.at == at, mine)))
        .where(whole.c.node == "", at >= int(since), at < int(until))
        .subquery()
    )
    means = [func.coalesce(func.avg(minutes.c[part]), 0.0).label(part) for part in _AVERAGED]
    found = select(minutes.c.span.label("at"), *means, func.max(minutes.c.waiting).label("waiting"))
    return work.execute(found.group_by(minutes.c.span).order_by(minutes.c.span)).all()


def card_sums(work: UnitOfWork, since: Moment, until: Moment, every: int) -> Sequence[Found]:
    """By `node`, `card` and `model`: the sums of `held`, of `busy` and of what was held and `idle`, over minutes that are
    multiples of `every`."""
    table, at = card_utilisation, card_utilisation.c.at
    over = case((table.c.held > table.c.busy, table.c.held - table.c.busy), else_=0.0)
    sums = (func.sum(table.c.held).label("held"), func.sum(table.c.busy).label("busy"), func.sum(over).label("idle"))
    by = (table.c.node, table.c.card, table.c.model)
    found = select(*by, *sums).where(at >= int(since), at < int(until), at % every == 0)
    return work.execute(found.group_by(*by).order_by(*by)).all()


def usual(work: UnitOfWork, kins: Sequence[str], most: int) -> dict[str, list[tuple[float, float]]]:
    """By kin: how many cores and cards the last ones kept busy that were done."""
    place = func.row_number().over(partition_by=jobs.c.kin, order_by=jobs.c.ended.desc()).label("place")
    done = select(jobs.c.kin, jobs.c.attempt, place).where(jobs.c.kin.in_(kins), jobs.c.state == "done").subquery()
    cpu, gpu = (func.sum(metering.c[name]) for name in ("cpu_seconds", "gpu_busy_seconds"))
    took = func.max(metering.c.ended - metering.c.started)
    found = (
        select(done.c.kin, cpu.label("cpu"), gpu.label("gpu"), took.label("took"))
        .join(metering, metering.c.attempt == done.c.attempt)
        .where(done.c.place <= most)
        .group_by(done.c.kin, done.c.attempt)
    )
    by_kin: dict[str, list[tuple[float, float]]] = {}
    for row in work.execute(found):
        seconds = max(row.took, 1) / SECOND
        by_kin.setdefault(row.kin, []).append((row.cpu / seconds, row.gpu / seconds))
    return by_kin


# Samples of jobs


def add_samples(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD_SAMPLE.run_many(work, rows)


def samples_of(work: UnitOfWork, job: str) -> Sequence[Found]:
    """Oldest first. The caller has found the job in its project."""
    return work.execute(select(samples).where(samples.c.job == job).order_by(samples.c.at)).all()
