"""Runs, with their params and tags. Runs have a number of their own, because the large tables name them millions of times."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.store.bulk import Bulk
from falaj.tracking.store.columns import KEY, ORDERED
from falaj.tracking.store.sets import prepared_among, set_given

PARAM: Final = "param"
TAG: Final = "tag"
ACTIVE: Final = 0
DELETED: Final = 1
WENT_WITH_EXPERIMENT: Final = 2
CAME_DELETED: Final = 3  # taken over from elsewhere in this state: what belongs to it may still follow

runs = Table(
    "tracking_runs",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False),
    Column("project", String(32), nullable=False),
    Column("experiment", BigInteger, nullable=False),
    Column("name", ORDERED, nullable=False),
    Column("user", ORDERED, nullable=False),
    Column("status", String(10), nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("deleted", SmallInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    UniqueConstraint("project", "id", name="tracking_runs_id"),
)
Index("tracking_runs_listing", runs.c.project, runs.c.experiment, runs.c.deleted, runs.c.started.desc(), runs.c.id)

params = Table(
    "tracking_params",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("key", KEY, primary_key=True),
    Column("value", ORDERED, nullable=False),
    sqlite_with_rowid=False,
)

tags = Table(
    "tracking_tags",
    metadata,
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("key", KEY, primary_key=True),
    Column("value", ORDERED, nullable=False),
    sqlite_with_rowid=False,
)

# The keys of params and tags that the runs of an experiment have or had, so that nobody reads all runs to list them.
keys = Table(
    "tracking_keys",
    metadata,
    Column("scope", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(5), primary_key=True),
    Column("key", KEY, primary_key=True),
    sqlite_with_rowid=False,
)


class Place(NamedTuple):
    """Where a run is found in the other tables."""

    number: int
    experiment: int
    deleted: int


class RunRow(NamedTuple):
    number: int
    id: str
    experiment: int
    name: str
    user: str
    status: Any
    started: int
    ended: int | None
    deleted: int
    created: int
    created_by: str


COLUMNS: Final = tuple(runs.c[name] for name in RunRow._fields)
_ONE: Final = (runs.c.project == bindparam("of_project")) & (runs.c.id == bindparam("of_id"))
_PLACE: Final = Prepared(select(*(runs.c[name] for name in Place._fields)).where(_ONE))
_ROW: Final = Prepared(select(*COLUMNS).where(_ONE))


def _or_stays(column: Column[Any]) -> ColumnElement[Any]:
    return func.coalesce(bindparam(f"new_{column.name}", type_=column.type), column)


_CHANGE: Final = Prepared(
    update(runs).where(_ONE).values({name: _or_stays(runs.c[name]) for name in ("status", "ended", "name")}).returning(*COLUMNS)
)
_HIDE: Final = Prepared(update(runs).where(_ONE).values(deleted=bindparam("new_deleted")))
_RENAME: Final = Prepared(update(runs).where(runs.c.number == bindparam("of_number")).values(name=bindparam("new_name")))
_DROP_TAG: Final = Prepared(delete(tags).where(tags.c.run == bindparam("of_run"), tags.c.key == bindparam("of_key")))


def _insert_run() -> dict[str, Any]:
    row = {column.name: bindparam(column.name, type_=column.type) for column in runs.c if column.name != "number"}
    return {
        name: dialect.insert(runs).values(row).on_conflict_do_nothing().returning(runs.c.number)
        for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
    }


_INSERT: Final = Prepared(_insert_run())


def find_place(work: UnitOfWork, project: str, run: str) -> Place | None:
    row = _PLACE.first(work, of_project=project, of_id=run)
    return None if row is None else Place._make(row)


def find_run(work: UnitOfWork, project: str, run: str) -> RunRow | None:
    row = _ROW.first(work, of_project=project, of_id=run)
    return None if row is None else RunRow._make(row)


def add_run(work: UnitOfWork, project: str, row: Mapping[str, Any]) -> int | None:
    """The new run's number, or None where the project has one of that id."""
    added = _INSERT.first(work, project=project, **row)
    return None if added is None else int(added[0])


def change_run(
    work: UnitOfWork, project: str, run: str, *, status: str | None, ended: int | None, name: str | None
) -> RunRow | None:
    """The run as it is then; what is None stays."""
    row = _CHANGE.first(work, of_project=project, of_id=run, new_status=status, new_ended=ended, new_name=name)
    return None if row is None else RunRow._make(row)


def rename_run(work: UnitOfWork, number: int, name: str) -> None:
    _RENAME.run(work, of_number=number, new_name=name)


def set_deleted(work: UnitOfWork, project: str, run: str, state: int) -> None:
    _HIDE.run(work, of_project=project, of_id=run, new_deleted=state)


def set_all_deleted(work: UnitOfWork, project: str, experiment: int, *, before: int, after: int) -> int:
    """Move the runs of an experiment from one state to another."""
    mine = (runs.c.project == project) & (runs.c.experiment == experiment) & (runs.c.deleted == before)
    return work.execute(update(runs).where(mine).values(deleted=after)).rowcount


# Params and tags


def _replacing(insert: Any) -> Any:
    return insert.on_conflict_do_update(index_elements=["run", "key"], set_={"value": insert.excluded.value})


_ADD_PARAMS: Final = Bulk(params, lambda insert: insert.on_conflict_do_nothing())
_SET_TAGS: Final = Bulk(tags, _replacing)
_ADD_KEYS: Final = Bulk(keys, lambda insert: insert.on_conflict_do_nothing())
_PARAMS: Final = prepared_among(params.c.run, lambda wanted: select(params).where(wanted).order_by(params.c.run, params.c.key))
_TAGS: Final = prepared_among(tags.c.run, lambda wanted: select(tags).where(wanted).order_by(tags.c.run, tags.c.key))
_KEYS: Final = prepared_among(
    keys.c.scope,
    lambda wanted: (
        select(keys.c.key)
        .where(wanted, keys.c.kind == bindparam("kind"))
        .distinct()
        .order_by(keys.c.key)
        .limit(bindparam("most"))
    ),
)


def add_params(work: UnitOfWork, run: int, scope: int, given: Mapping[str, str]) -> dict[str, str]:
    """Add params that the run does not have; where some were there, the values that these have."""
    names = sorted(given)
    added = _ADD_PARAMS.insert(work, [(run, key, given[key]) for key in names])
    _ADD_KEYS.insert(work, [(scope, PARAM, key) for key in names])
    if added == len(given):
        return {}
    return {key: value for _, key, value in params_of(work, [run]) if key in given}


def set_tags(work: UnitOfWork, run: int, scope: int, given: Mapping[str, str]) -> None:
    names = sorted(given)
    _SET_TAGS.insert(work, [(run, key, given[key]) for key in names])
    _ADD_KEYS.insert(work, [(scope, TAG, key) for key in names])


def drop_tag(work: UnitOfWork, run: int, key: str) -> bool:
    return _DROP_TAG.run(work, of_run=run, of_key=key) == 1


def params_of(work: UnitOfWork, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
    return _PARAMS.all(work, among=set_given(work, numbers))


def tags_of(work: UnitOfWork, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
    return _TAGS.all(work, among=set_given(work, numbers))


def keys_of(work: UnitOfWork, scopes: Sequence[int], kind: str, limit: int) -> list[str]:
    return [key for (key,) in _KEYS.all(work, among=set_given(work, scopes), kind=kind, most=limit)]
