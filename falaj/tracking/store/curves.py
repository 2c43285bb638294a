"""Reading points: one metric's whole history, the curves of several runs, and which metrics there are."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, func, select, tuple_

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.tracking.store.digests import metric_number
from falaj.tracking.store.metrics import Point, latest, metrics
from falaj.tracking.store.sets import prepared_over, set_given

_POINT: Final = (metrics.c.step, metrics.c.at, metrics.c.value, metrics.c.nan)
_ONE_CURVE: Final = and_(metrics.c.run == bindparam("run"), metrics.c.metric == bindparam("metric"))
_FIRST: Final = select(*_POINT).where(_ONE_CURVE).order_by(*_POINT).limit(bindparam("most"))
_HISTORY: Final = Prepared(_FIRST)
_BEHIND: Final = Prepared(
    _FIRST.where(tuple_(*_POINT) > tuple_(*(bindparam(column.name, type_=column.type) for column in _POINT)))
)
ROWS_AT_ONCE: Final = 5000


def history(work: UnitOfWork, run: int, key: str, *, after: Point | None, limit: int) -> list[Point]:
    """Points in the order of step and time, behind one of them."""
    given = {"run": run, "metric": metric_number(key), "most": limit}
    rows = _HISTORY.all(work, **given) if after is None else _BEHIND.all(work, **given, **after._asdict())
    return [Point._make(row) for row in rows]


def count_points(
    work: UnitOfWork, runs: Sequence[int], keys: Sequence[str], first: int | None, last: int | None
) -> dict[tuple[int, int], int]:
    """How many points each curve has between two steps, by the numbers of run and metric."""
    its = metrics.c
    counted = select(its.run, its.metric, func.count()).where(_wanted(runs, keys, first, last)).group_by(its.run, its.metric)
    rows: Iterable[Any] = work.execute(counted)
    return {(run, metric): total for run, metric, total in rows}


def points(
    work: UnitOfWork, runs: Sequence[int], keys: Sequence[str], first: int | None, last: int | None
) -> Generator[tuple[int, int, int, int, float, bool]]:
    """The points of all these curves, in the order of runs, metrics, steps and times; never all in memory. To be closed."""
    its = metrics.c
    query = select(its.run, its.metric, *_POINT).where(_wanted(runs, keys, first, last)).order_by(its.run, its.metric, *_POINT)
    if work.connection.dialect.name == "sqlite":
        with work.execute(query) as result:
            yield from result.cursor  # type: ignore[misc]  # SQLite's own rows, as they come: half the time of SQLAlchemy's
        return
    with work.execute(query.execution_options(yield_per=ROWS_AT_ONCE)) as result:
        for part in result.partitions():
            yield from part  # type: ignore[misc]


def _wanted(runs: Sequence[int], keys: Sequence[str], first: int | None, last: int | None) -> ColumnElement[bool]:
    within = [metrics.c.step >= first] if first is not None else []
    within += [metrics.c.step <= last] if last is not None else []
    return and_(metrics.c.run.in_(runs), metrics.c.metric.in_([metric_number(key) for key in keys]), *within)


def _names(scopes: FromClause) -> Select[Any]:
    """From one metric of an experiment to the next by the index: reading what all runs have would take long."""
    its = latest.c
    least = select(func.min(its.metric))
    first = select(
        scopes.c.value.label("scope"), least.where(its.experiment == scopes.c.value).scalar_subquery().label("metric")
    ).cte("found", recursive=True)
    following = least.where(its.experiment == first.c.scope, its.metric > first.c.metric).scalar_subquery()
    found = first.union_all(select(first.c.scope, following).where(first.c.metric.is_not(None)))
    name = select(its.name).where(its.experiment == found.c.scope, its.metric == found.c.metric).limit(1).scalar_subquery()
    return select(name).where(found.c.metric.is_not(None)).limit(bindparam("most"))


_NAMES: Final = prepared_over(_names)


def metric_names(work: UnitOfWork, scopes: Sequence[int], limit: int) -> set[str]:
    """The metrics that runs of these experiments have; names that several have count for each."""
    return {name for (name,) in _NAMES.all(work, among=set_given(work, scopes), most=limit)}
