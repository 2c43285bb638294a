"""The tables of logged models and all their SQL. Their metrics are written with those of runs, in `tracking.store.metrics`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Index,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    insert,
    null,
    or_,
    select,
    update,
)

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.comparisons import compared
from falaj.database.filters import Comparison, Ordering
from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.operations.models import MeasuredOn
from falaj.tracking.store.columns import KEY, ORDERED
from falaj.tracking.store.digests import metric_number
from falaj.tracking.store.metrics import model_metrics
from falaj.tracking.store.runs import runs

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

models = Table(
    "tracking_models",
    metadata,
    Column("id", String(34), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("experiment", BigInteger, nullable=False),
    Column("name", ORDERED, nullable=False),
    Column("kind", ORDERED, nullable=False),
    Column("run", String(32), nullable=False),
    Column("status", String(20), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("deleted", BigInteger),
    Index("tracking_models_listing", "project", "experiment", "created", "id"),
)

params = Table(
    "tracking_model_params",
    metadata,
    Column("model", String(34), primary_key=True),
    Column("key", KEY, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

tags = Table(
    "tracking_model_tags",
    metadata,
    Column("model", String(34), primary_key=True),
    Column("key", KEY, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

_ONE: Final = select(models).where(
    models.c.id == bindparam("id"), models.c.project == bindparam("project"), models.c.deleted.is_(None)
)
_HELD: Final = _ONE.with_for_update()
_THIS: Final = models.c.id == bindparam("its_id")
_SET_STATUS: Final = update(models).where(_THIS).values(status=bindparam("new_status"), changed=bindparam("now"))
_TOUCH: Final = update(models).where(_THIS).values(changed=bindparam("now"))
_HIDE: Final = update(models).where(_THIS).values(deleted=bindparam("now"), changed=bindparam("now"))
_AMONG: Final[BindParameter[Any]] = bindparam("models", expanding=True)
_PARAMS: Final = select(params).where(params.c.model.in_(_AMONG)).order_by(params.c.model, params.c.key)
_TAGS: Final = select(tags).where(tags.c.model.in_(_AMONG)).order_by(tags.c.model, tags.c.key)


def add_model(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(models), row)


def find_model(work: UnitOfWork, project: str, model: str, *, hold: bool = False) -> Found | None:
    """One that is not deleted, where `hold` says so held against other changes until the transaction ends."""
    return work.execute(_HELD if hold else _ONE, {"id": model, "project": project}).first()


def set_status(work: UnitOfWork, model: str, status: str, now: Moment) -> None:
    work.execute(_SET_STATUS, {"its_id": model, "new_status": status, "now": now})


def touch(work: UnitOfWork, model: str, now: Moment) -> None:
    work.execute(_TOUCH, {"its_id": model, "now": now})


def hide(work: UnitOfWork, model: str, now: Moment) -> None:
    work.execute(_HIDE, {"its_id": model, "now": now})


def params_of(work: UnitOfWork, ids: Collection[str]) -> Sequence[Found]:
    return work.execute(_PARAMS, {"models": list(ids)}).all()


def tags_of(work: UnitOfWork, ids: Collection[str]) -> Sequence[Found]:
    return work.execute(_TAGS, {"models": list(ids)}).all()


def add_params(work: UnitOfWork, model: str, pairs: Mapping[str, str]) -> None:
    _add(work, params, model, pairs)


def set_tags(work: UnitOfWork, model: str, pairs: Mapping[str, str]) -> None:
    """The caller holds the model, so nobody sets the same ones meanwhile."""
    if pairs:
        work.execute(delete(tags).where(tags.c.model == model, tags.c.key.in_(pairs)))
    _add(work, tags, model, pairs)


def remove_tag(work: UnitOfWork, model: str, key: str) -> bool:
    return work.execute(delete(tags).where(tags.c.model == model, tags.c.key == key)).rowcount == 1


def _add(work: UnitOfWork, table: Table, model: str, pairs: Mapping[str, str]) -> None:
    if pairs:
        work.execute(insert(table), [{"model": model, "key": key, "value": text} for key, text in pairs.items()])


# Searching


@value
class Sorting:
    """An ordering; the last value of a metric is taken among those measured on `dataset`, where there is one."""

    ordering: Ordering
    dataset: MeasuredOn | None = None


# MLflow's clients count milliseconds, and these are their names.
ATTRIBUTES: Final[dict[str, ColumnElement[Any]]] = {
    "name": models.c.name,
    "model_id": models.c.id,
    "model_type": models.c.kind,
    "source_run_id": models.c.run,
    "status": models.c.status,
    "creation_timestamp_ms": models.c.created // 1000,
    "last_updated_timestamp_ms": models.c.changed // 1000,
}


def search_models(
    work: UnitOfWork,
    project: str,
    experiments: Collection[int],
    *,
    filters: Sequence[Comparison],
    datasets: Sequence[MeasuredOn],
    order: Sequence[Sorting],
    until: Moment,
    offset: int,
    limit: int,
) -> Sequence[Found]:
    """Those made up to a moment. Metrics count where they were measured on one of the datasets, if any are named."""
    found = select(models).where(models.c.project == project, models.c.experiment.in_(experiments), models.c.deleted.is_(None))
    found = found.where(models.c.created <= until, *(_condition(work, project, one, datasets) for one in filters))
    if datasets and not any(one.kind == "metric" for one in filters):
        found = found.where(exists(_measured(project, datasets)))
    for one in order:
        by = _sorted_by(project, one)
        # What has no value comes last in either direction; engines disagree about that.
        found = found.order_by(by.is_(None), by.desc() if one.ordering.descending else by.asc())
    found = found.order_by(models.c.created.desc(), models.c.id)
    return work.execute(found.offset(offset).limit(limit)).all()


def _condition(work: UnitOfWork, project: str, comparison: Comparison, datasets: Sequence[MeasuredOn]) -> ColumnElement[bool]:
    if comparison.kind == "attribute":
        return compared(work, ATTRIBUTES[comparison.key], comparison)
    if comparison.kind == "metric":
        its = _measured(project, datasets).where(model_metrics.c.metric == metric_number(comparison.key))
        return exists(its.where(model_metrics.c.nan.is_(False), compared(work, model_metrics.c.value, comparison)))
    table = params if comparison.kind == "param" else tags
    here = select(1).where(table.c.model == models.c.id, table.c.key == comparison.key)
    if comparison.comparator == "IS NULL":
        return ~exists(here)
    return exists(here if comparison.comparator == "IS NOT NULL" else here.where(compared(work, table.c.value, comparison)))


def _sorted_by(project: str, sorting: Sorting) -> ColumnElement[Any]:
    if sorting.ordering.kind == "attribute":
        return ATTRIBUTES[sorting.ordering.key]
    its = _measured(project, (sorting.dataset,) if sorting.dataset else ())
    last = its.with_only_columns(case((model_metrics.c.nan, null()), else_=model_metrics.c.value))
    last = last.where(model_metrics.c.metric == metric_number(sorting.ordering.key))
    return last.order_by(model_metrics.c.at.desc(), model_metrics.c.step.desc(), runs.c.id).limit(1).scalar_subquery()


def _measured(project: str, datasets: Sequence[MeasuredOn]) -> Select[Any]:
    """What runs of the project measured of the model that is looked at, on any of the datasets if some are named."""
    its = select(model_metrics.c.model).join(runs, and_(runs.c.number == model_metrics.c.run, runs.c.project == project))
    its = its.where(model_metrics.c.model == models.c.id).correlate(models)
    return its.where(or_(*(_on(dataset) for dataset in datasets))) if datasets else its


def _on(dataset: MeasuredOn) -> ColumnElement[bool]:
    named = model_metrics.c.dataset_name == dataset.name
    return and_(named, model_metrics.c.dataset_digest == dataset.digest) if dataset.digest else named
