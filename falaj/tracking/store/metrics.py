"""Metrics: every point, the last one of each metric, and those that are about a logged model.

A point's columns are its whole key, so that one which is sent twice counts once. NaN, which databases order as they please or
do not take at all, stands as 0.0 beside a mark.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    String,
    Table,
    Text,
    and_,
    select,
    tuple_,
)

from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.store.bulk import Bulk
from falaj.tracking.store.columns import ORDERED
from falaj.tracking.store.digests import metric_number, number_of
from falaj.tracking.store.runs import runs
from falaj.tracking.store.sets import prepared_among, set_given

metrics = Table(
    "tracking_metrics",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("metric", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Double, primary_key=True),
    Column("nan", Boolean, primary_key=True),
    sqlite_with_rowid=False,
)

# `experiment` is its number among those of all projects, as `digests.scope_of` says.
latest = Table(
    "tracking_latest",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("metric", BigInteger, primary_key=True, autoincrement=False),
    Column("name", ORDERED, nullable=False),
    Column("experiment", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("value", Double, nullable=False),
    Column("nan", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index("tracking_latest_order", latest.c.experiment, latest.c.metric, latest.c.nan, latest.c.value)

model_metrics = Table(
    "tracking_model_metrics",
    metadata,
    Column("model", String(34), primary_key=True),
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("metric", BigInteger, primary_key=True, autoincrement=False),
    Column("dataset", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Double, primary_key=True),
    Column("nan", Boolean, primary_key=True),
    Column("name", ORDERED, nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("dataset_digest", String(36), nullable=False),
    sqlite_with_rowid=False,
)


class Point(NamedTuple):
    """`value` is 0.0 where `nan` says so."""

    step: int
    at: int
    value: float
    nan: bool

    @property
    def number(self) -> float:
        return float("nan") if self.nan else self.value


class ModelPoint(NamedTuple):
    model: str
    name: str
    run: str
    dataset_name: str
    dataset_digest: str
    step: int
    at: int
    value: float
    nan: bool


def _if_later(insert: Any) -> Any:
    """The greatest of step, time and value is the last one, in whatever order they come in."""
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=["run", "metric"],
        set_={name: new[name] for name in ("step", "at", "value", "nan")},
        where=tuple_(new.step, new.at, new.value) > tuple_(latest.c.step, latest.c.at, latest.c.value),
    )


_ADD: Final = Bulk(metrics, lambda insert: insert.on_conflict_do_nothing())
_ADD_LATEST: Final = Bulk(latest, _if_later)
_ADD_TO_MODEL: Final = Bulk(model_metrics, lambda insert: insert.on_conflict_do_nothing())


def add_metrics(work: UnitOfWork, run: int, scope: int, given: Sequence[Any]) -> None:
    """Add points, each with `key`, `value`, `timestamp` and `step`."""
    rows = [
        (run, metric_number(one.key), one.step, one.timestamp, value, False)
        if (value := float(one.value)) == value
        else (run, metric_number(one.key), one.step, one.timestamp, 0.0, True)
        for one in given
    ]
    rows.sort()
    _ADD.insert(work, rows)
    last = {row[1]: row for row in rows}
    names = {metric_number(key): key for key in {one.key for one in given}}
    _ADD_LATEST.insert(work, [(run, metric, names[metric], scope, *row[2:]) for metric, row in last.items()])


def add_model_metrics(
    work: UnitOfWork, run: int, model: str, *, dataset_name: str, dataset_digest: str, given: Sequence[Any]
) -> None:
    """What of a run is about a logged model, and the data it was measured on, where that is known."""
    dataset = number_of(f"{dataset_name}\0{dataset_digest}") if dataset_name else 0
    named = (dataset_name, dataset_digest)
    rows = {}
    for one in given:
        value = float(one.value)
        nan = value != value
        at = (model, run, metric_number(one.key), dataset, one.step, one.timestamp, 0.0 if nan else value, nan)
        rows[at] = (*at, one.key, *named)
    _ADD_TO_MODEL.insert(work, [rows[at] for at in sorted(rows)])


_LATEST: Final = prepared_among(
    latest.c.run,
    lambda wanted: (
        select(latest.c.run, latest.c.name, latest.c.step, latest.c.at, latest.c.value, latest.c.nan)
        .where(wanted)
        .order_by(latest.c.run, latest.c.name)
    ),
)


def latest_of(work: UnitOfWork, numbers: Sequence[int]) -> list[tuple[int, str, int, int, float, bool]]:
    return _LATEST.all(work, among=set_given(work, numbers))


def metrics_of_models(work: UnitOfWork, project: str, ids: Sequence[str]) -> list[ModelPoint]:
    """What runs of the project measured of these logged models, in the order of models, names, steps and times."""
    its = model_metrics.c
    columns = (its.model, its.name, runs.c.id, its.dataset_name, its.dataset_digest, its.step, its.at, its.value, its.nan)
    found: list[ModelPoint] = []
    for start in range(0, len(ids), 1000):
        mine = and_(runs.c.number == its.run, runs.c.project == project)
        query = select(*columns).join(runs, mine).where(its.model.in_(ids[start : start + 1000]))
        rows = work.execute(query.order_by(its.model, its.name, its.step, its.at, its.value))
        found += (ModelPoint._make(row) for row in rows)
    return found
