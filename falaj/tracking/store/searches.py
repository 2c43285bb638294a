"""Searching runs: filters and orders as SQL.

Runs that are ordered by a metric are looked for first along the index of its last values; the rest, where the metric is NaN or
missing, comes behind them and is asked for only when a page reaches it.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, FromClause, Select, UnaryExpression, and_, case, exists, false, or_, select, true

from falaj.base.values import value
from falaj.database.comparisons import compared
from falaj.database.filters import Comparison, Ordering
from falaj.database.work import UnitOfWork
from falaj.tracking.store.digests import metric_number, scope_of
from falaj.tracking.store.inputs import datasets, inputs
from falaj.tracking.store.metrics import latest
from falaj.tracking.store.runs import ACTIVE, COLUMNS, RunRow, params, runs, tags

ATTRIBUTES: Final[dict[str, Column[Any]]] = {
    "run_id": runs.c.id,
    "run_name": runs.c.name,
    "status": runs.c.status,
    "user_id": runs.c.user,
    "start_time": runs.c.started,
    "end_time": runs.c.ended,
}
_TABLES: Final = {"param": params, "tag": tags}


@value
class Wanted:
    """`deleted` None means both kinds."""

    project: str
    experiments: tuple[int, ...]
    filters: tuple[Comparison, ...]
    order: tuple[Ordering, ...]
    deleted: bool | None
    offset: int
    limit: int


def search_runs(work: UnitOfWork, wanted: Wanted) -> list[RunRow]:
    if not wanted.experiments:
        return []
    if wanted.order and wanted.order[0].kind == "metric":
        found = _page(work, wanted, _along_metric(work, wanted))
        if len(found) == wanted.limit or _demands(wanted.filters, wanted.order[0]):
            return found
    return _page(work, wanted, _in_any_order(work, wanted))


def _page(work: UnitOfWork, wanted: Wanted, query: Select[Any]) -> list[RunRow]:
    return [RunRow._make(row) for row in work.execute(query.offset(wanted.offset).limit(wanted.limit))]


def _along_metric(work: UnitOfWork, wanted: Wanted) -> Select[Any]:
    """Only the runs that have a number for the metric they are ordered by."""
    first = wanted.order[0]
    known = latest.alias()
    scopes = [scope_of(wanted.project, experiment) for experiment in wanted.experiments]
    here = and_(known.c.experiment.in_(scopes), known.c.metric == metric_number(first.key), known.c.nan == false())
    conditions: list[ColumnElement[bool]] = []
    for comparison in wanted.filters:
        if comparison.kind == "metric" and comparison.key == first.key:
            here = and_(here, compared(work, known.c.value, comparison))
        else:
            conditions.append(_condition(work, wanted.project, comparison))
    found = _looked_up(work, wanted, known, conditions)
    query = select(*found.c).select_from(known).join(found, found.c.number == known.c.run).where(here)
    return _ordered(query, found, wanted.order[1:], (_directed(known.c.value, first),))


def _looked_up(work: UnitOfWork, wanted: Wanted, known: FromClause, conditions: Sequence[ColumnElement[bool]]) -> FromClause:
    """The runs that are asked for, to be looked up one by one along the index of last values, which ends with the page.

    Both engines would rather begin with all runs of the experiment, Postgres above all before it has counted its rows: it is
    shown a subquery for each value, SQLite conditions that none of its indexes serves.
    """
    question = _in_question(wanted, runs.c.project, runs.c.experiment, runs.c.deleted)
    if work.connection.dialect.name == "postgresql":
        return select(*COLUMNS).where(runs.c.number == known.c.run, question, *conditions).offset(0).lateral()
    question = _in_question(wanted, runs.c.project.concat(""), runs.c.experiment + 0, runs.c.deleted + 0)
    return select(*COLUMNS).where(question, *conditions).subquery()


def _in_any_order(work: UnitOfWork, wanted: Wanted) -> Select[Any]:
    conditions = (_condition(work, wanted.project, comparison) for comparison in wanted.filters)
    question = _in_question(wanted, runs.c.project, runs.c.experiment, runs.c.deleted)
    return _ordered(select(*COLUMNS).where(question, *conditions), runs, wanted.order, ())


def _in_question(
    wanted: Wanted, project: ColumnElement[Any], experiment: ColumnElement[Any], deleted: ColumnElement[Any]
) -> ColumnElement[bool]:
    which = and_(project == wanted.project, experiment.in_(wanted.experiments))
    if wanted.deleted is None:
        return which
    return and_(which, deleted != ACTIVE if wanted.deleted else deleted == ACTIVE)


def _demands(filters: Sequence[Comparison], order: Ordering) -> bool:
    """Whether a filter admits only runs that have a number for this metric; NaN is unequal to everything."""
    return any(one.kind == "metric" and one.key == order.key and one.comparator != "!=" for one in filters)


def _ordered(
    query: Select[Any], found: FromClause, order: Sequence[Ordering], before: tuple[UnaryExpression[Any], ...]
) -> Select[Any]:
    """What is missing comes last, NaN before it; newer runs come first among equals. `found` has the runs of the query."""
    by: list[ColumnElement[Any]] = list(before)
    for one in order:
        if one.kind == "attribute":
            column = found.c[ATTRIBUTES[one.key].name]
            by += ([column.is_(None)] if one.key == "end_time" else []) + [_directed(column, one)]
            continue
        if one.kind == "metric":
            known: Any = latest.alias()
            query = query.outerjoin(known, and_(known.c.run == found.c.number, known.c.metric == metric_number(one.key)))
            by.append(case((known.c.nan == true(), 1), (known.c.value.is_(None), 2), else_=0))
        else:
            known = _TABLES[one.kind].alias()
            query = query.outerjoin(known, and_(known.c.run == found.c.number, known.c.key == one.key))
            by.append(known.c.value.is_(None))
        by.append(_directed(known.c.value, one))
    if not any(one.kind == "attribute" and one.key == "start_time" for one in order):
        by.append(found.c.started.desc())
    return query.order_by(*by, found.c.id)


def _directed(column: ColumnElement[Any], order: Ordering) -> UnaryExpression[Any]:
    return column.desc() if order.descending else column.asc()


def _condition(work: UnitOfWork, project: str, comparison: Comparison) -> ColumnElement[bool]:
    if comparison.kind == "attribute":
        return compared(work, ATTRIBUTES[comparison.key], comparison)
    if comparison.kind == "metric":
        here = select(1).where(latest.c.run == runs.c.number, latest.c.metric == metric_number(comparison.key))
        holds = compared(work, latest.c.value, comparison)
        unequal = comparison.comparator == "!="
        return exists(here.where(or_(holds, latest.c.nan == true()) if unequal else and_(holds, latest.c.nan == false())))
    if comparison.kind == "dataset":
        return _used(work, project, comparison)
    table = _TABLES[comparison.kind]
    here = select(1).where(table.c.run == runs.c.number, table.c.key == comparison.key)
    if comparison.comparator == "IS NULL":
        return ~exists(here)
    return exists(here if comparison.comparator == "IS NOT NULL" else here.where(compared(work, table.c.value, comparison)))


def _used(work: UnitOfWork, project: str, comparison: Comparison) -> ColumnElement[bool]:
    here = select(1).where(inputs.c.run == runs.c.number)
    if comparison.key == "context":
        return exists(here.where(compared(work, inputs.c.context, comparison)))
    described = and_(datasets.c.project == project, datasets.c.id == inputs.c.dataset)
    return exists(here.where(described, compared(work, datasets.c[comparison.key], comparison)))
