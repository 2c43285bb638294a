"""Searches of models and versions: MLflow's filters and orders as SQL with bound parameters."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Select, Table, and_, exists, or_, select

from falaj.database.comparisons import compared
from falaj.database.filters import Comparison, Ordering
from falaj.database.work import UnitOfWork
from falaj.registry.store.tables import Found, model_tags, models, version_tags, versions
from falaj.registry.store.versions import WITH_MODEL

# Clients that leave MLflow's prompts out ask for this; a model without the tag is none.
_IS_PROMPT: Final = "mlflow.prompt.is_prompt"
_MODEL_COLUMNS: Final[dict[str, Column[Any]]] = {
    "name": models.c.name,
    "creation_timestamp": models.c.created,
    "last_updated_timestamp": models.c.changed,
}
_VERSION_COLUMNS: Final[dict[str, Column[Any]]] = {
    "name": models.c.name,
    "version_number": versions.c.number,
    "run_id": versions.c.run,
    "source_path": versions.c.source,
    "creation_timestamp": versions.c.created,
    "last_updated_timestamp": versions.c.changed,
}


def search_models(
    work: UnitOfWork,
    project: str,
    filters: Sequence[Comparison],
    orders: Sequence[Ordering],
    *,
    offset: int,
    limit: int,
) -> Sequence[Found]:
    found = select(models).where(models.c.project == project, models.c.deleted.is_(None))
    for comparison in filters:
        found = found.where(_holds(work, comparison, _MODEL_COLUMNS, model_tags, model_tags.c.model == models.c.id))
    return _page(work, found, orders, _MODEL_COLUMNS, models.c.id, offset, limit)


def search_versions(
    work: UnitOfWork,
    project: str,
    filters: Sequence[Comparison],
    orders: Sequence[Ordering],
    *,
    offset: int,
    limit: int,
) -> Sequence[Found]:
    found = WITH_MODEL.where(versions.c.project == project, versions.c.deleted.is_(None))
    for comparison in filters:
        found = found.where(_holds(work, comparison, _VERSION_COLUMNS, version_tags, version_tags.c.version == versions.c.id))
    return _page(work, found, orders, _VERSION_COLUMNS, versions.c.id, offset, limit)


def _holds(
    work: UnitOfWork, comparison: Comparison, columns: dict[str, Column[Any]], tags: Table, own: ColumnElement[bool]
) -> ColumnElement[bool]:
    if comparison.kind == "attribute":
        return compared(work, columns[comparison.key], comparison)
    tagged = and_(own, tags.c.key == comparison.key)
    if comparison.comparator in ("IS NULL", "IS NOT NULL"):
        there = exists(select(tags.c.key).where(tagged))
        return ~there if comparison.comparator == "IS NULL" else there
    holds = exists(select(tags.c.key).where(tagged, compared(work, tags.c.value, comparison)))
    if comparison.key == _IS_PROMPT and (comparison.comparator, comparison.value) in (("=", "false"), ("!=", "true")):
        return or_(holds, ~exists(select(tags.c.key).where(tagged)))
    return holds


def _page(
    work: UnitOfWork,
    found: Select[Any],
    orders: Sequence[Ordering],
    columns: dict[str, Column[Any]],
    last: Column[Any],
    offset: int,
    limit: int,
) -> Sequence[Found]:
    """In one order on every page: what the orders leave open, the id decides."""
    by = [_directed(work, columns[order.key], order.descending) for order in orders]
    return work.execute(found.order_by(*by, last).offset(offset).limit(limit)).all()


def _directed(work: UnitOfWork, column: Column[Any], descending: bool) -> ColumnElement[Any]:
    """Texts by their code points on either engine, not by the language that a server happens to be set to."""
    is_text = column.type.python_type is str and work.connection.dialect.name == "postgresql"
    ordered = column.collate("C") if is_text else column
    return ordered.desc() if descending else ordered.asc()
