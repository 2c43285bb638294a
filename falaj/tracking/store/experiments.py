"""Experiments and their tags. The experiment 0 of a project has no row before anybody changes it or adds another."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Row,
    String,
    Subquery,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.comparisons import compared
from falaj.database.filters import Comparison, Ordering
from falaj.database.inserts import insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.store.columns import KEY, ORDERED

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

DEFAULT: Final = 0
DEFAULT_NAME: Final = "Default"

experiments = Table(
    "tracking_experiments",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("name", ORDERED, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    UniqueConstraint("project", "name", name="tracking_experiments_name"),
)

tags = Table(
    "tracking_experiment_tags",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("experiment", BigInteger, primary_key=True, autoincrement=False),
    Column("key", KEY, primary_key=True),
    Column("value", Text, nullable=False),
)

_COLUMNS: Final = (
    experiments.c.number,
    experiments.c.name,
    experiments.c.deleted,
    experiments.c.created,
    experiments.c.changed,
    experiments.c.created_by,
)
_MINE: Final = experiments.c.project == bindparam("project")
_ONE: Final = _MINE & (experiments.c.number == bindparam("number"))
# Shared with others who add runs; whoever would delete the experiment waits.
_HOLD: Final = Prepared(select(experiments.c.deleted).where(_ONE).with_for_update(read=True))


def _known() -> Subquery:
    """The project's experiments, with the first one where it has no row yet."""
    stored = select(*_COLUMNS).where(_MINE)
    first = select(
        literal(DEFAULT, BigInteger).label("number"),
        literal(DEFAULT_NAME, Text).label("name"),
        false().label("deleted"),
        literal(0, BigInteger).label("created"),
        literal(0, BigInteger).label("changed"),
        literal("", String).label("created_by"),
    ).where(~exists(select(1).where(_MINE, experiments.c.number == DEFAULT)))
    return union_all(stored, first).subquery("known")


_KNOWN: Final = _known()
_BY_NUMBER: Final = select(_KNOWN).where(_KNOWN.c.number == bindparam("number"))
_BY_NAME: Final = select(_KNOWN).where(_KNOWN.c.name == bindparam("name"))
# MLflow's clients count milliseconds.
_ATTRIBUTES: Final[dict[str, ColumnElement[Any]]] = {
    "name": _KNOWN.c.name,
    "experiment_id": _KNOWN.c.number,
    "creation_time": _KNOWN.c.created // 1000,
    "last_update_time": _KNOWN.c.changed // 1000,
}


def is_active(work: UnitOfWork, project: str, number: int) -> bool | None:
    """Whether the experiment takes runs, held against deletion; None where there is none."""
    row = _HOLD.first(work, project=project, number=number)
    if row is None:
        return True if number == DEFAULT else None
    return not row[0]


def find_experiment(work: UnitOfWork, project: str, number: int) -> Found | None:
    return work.execute(_BY_NUMBER, {"project": project, "number": number}).first()


def find_named(work: UnitOfWork, project: str, name: str) -> Found | None:
    return work.execute(_BY_NAME, {"project": project, "name": name}).first()


def hold_numbers(work: UnitOfWork, project: str) -> None:
    """Let nobody else add or rename experiments of the project before the transaction ends: its first row is the lock."""
    row = {"project": project, "number": DEFAULT, "name": DEFAULT_NAME, "deleted": False}
    insert_or_skip(work, experiments, row | {"created": 0, "changed": 0, "created_by": ""})
    first = select(experiments.c.number).where(_MINE, experiments.c.number == DEFAULT)
    work.execute(first.with_for_update(), {"project": project})


def add_experiment(work: UnitOfWork, project: str, name: str, *, by: str, now: Moment) -> int | None:
    """The new experiment's number, or None where the name is taken. The caller holds the numbers."""
    last = work.execute(select(func.max(experiments.c.number)).where(_MINE), {"project": project}).scalar_one()
    row = {"project": project, "number": last + 1, "name": name, "deleted": False}
    added = insert_or_skip(work, experiments, row | {"created": now, "changed": now, "created_by": by})
    return last + 1 if added else None


def change_experiment(work: UnitOfWork, project: str, number: int, **values: Any) -> None:
    mine = (experiments.c.project == project) & (experiments.c.number == number)
    work.execute(update(experiments).where(mine).values(values))


def set_tag(work: UnitOfWork, project: str, experiment: int, key: str, value: str) -> None:
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(tags).values(project=project, experiment=experiment, key=key, value=value)
    work.execute(row.on_conflict_do_update(index_elements=tags.primary_key.columns, set_={"value": row.excluded.value}))


def drop_tag(work: UnitOfWork, project: str, experiment: int, key: str) -> bool:
    mine = (tags.c.project == project) & (tags.c.experiment == experiment) & (tags.c.key == key)
    return work.execute(delete(tags).where(mine)).rowcount == 1


def tags_of(work: UnitOfWork, project: str, numbers: Sequence[int]) -> Sequence[Found]:
    mine = select(tags.c.experiment, tags.c.key, tags.c.value).where(tags.c.project == project)
    return work.execute(mine.where(tags.c.experiment.in_(numbers)).order_by(tags.c.experiment, tags.c.key)).all()


def search_experiments(
    work: UnitOfWork,
    project: str,
    *,
    filters: Sequence[Comparison],
    order: Sequence[Ordering],
    deleted: bool | None,
    offset: int,
    limit: int,
) -> Sequence[Found]:
    """`deleted` None means both kinds. `experiment_id` is compared with numbers here."""
    query = select(_KNOWN).where(*(_condition(work, comparison) for comparison in filters))
    if deleted is not None:
        query = query.where(_KNOWN.c.deleted == deleted)
    given = order or (Ordering(kind="attribute", key="creation_time", descending=True),)
    columns = [(_ATTRIBUTES[one.key], one.descending) for one in given]
    ordered = [column.desc() if descending else column.asc() for column, descending in columns]
    if not any(one.key == "experiment_id" for one in given):
        ordered.append(_KNOWN.c.number.asc() if not order else _KNOWN.c.number.desc())
    return work.execute(query.order_by(*ordered).offset(offset).limit(limit), {"project": project}).all()


def _condition(work: UnitOfWork, comparison: Comparison) -> ColumnElement[bool]:
    if comparison.kind == "attribute":
        return compared(work, _ATTRIBUTES[comparison.key], comparison)
    here = select(1).where(tags.c.project == bindparam("project"), tags.c.experiment == _KNOWN.c.number)
    here = here.where(tags.c.key == comparison.key)
    if comparison.comparator == "IS NULL":
        return ~exists(here)
    return exists(here if comparison.comparator == "IS NOT NULL" else here.where(compared(work, tags.c.value, comparison)))
