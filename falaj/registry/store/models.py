"""SQL of registered models, their tags and their aliases."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.registry.store.tables import Found, aliases, model_tags, models, versions

_LIVE: Final = select(models).where(
    models.c.project == bindparam("project"), models.c.name == bindparam("name"), models.c.deleted.is_(None)
)
_HELD: Final = _LIVE.with_for_update()


def add(work: UnitOfWork, *, id: str, project: str, name: str, description: str, by: str, now: Moment) -> bool:
    """False where the name is taken."""
    row = {
        "id": id,
        "project": project,
        "name": name,
        "description": description,
        "last_version": 0,
        "last_move": 0,
        "created": now,
        "created_by": by,
        "changed": now,
    }
    return insert_or_skip(work, models, row)


def find(work: UnitOfWork, project: str, name: str, *, hold: bool = False) -> Found | None:
    """`hold`: nobody else changes the model or moves its aliases until the transaction ends."""
    return work.execute(_HELD if hold else _LIVE, {"project": project, "name": name}).first()


def find_by_id(work: UnitOfWork, project: str, id: str) -> Found | None:
    """Deleted or not."""
    return work.execute(select(models).where(models.c.id == id, models.c.project == project)).first()


def hold_by_id(work: UnitOfWork, project: str, id: str) -> Found | None:
    return work.execute(select(models).where(models.c.id == id, models.c.project == project).with_for_update()).first()


def ever_named(work: UnitOfWork, project: str, name: str, at: Moment | None = None) -> Found | None:
    """The model of this name that there was at that moment, or is last: also one that has been deleted since."""
    named = select(models).where(models.c.project == project, models.c.name == name)
    if at is not None:
        named = named.where(models.c.created <= at, or_(models.c.deleted.is_(None), models.c.deleted > at))
    # The live one has no end, and there is one at most.
    return work.execute(named.order_by(models.c.deleted.is_(None).desc(), models.c.deleted.desc()).limit(1)).first()


def names_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, str]:
    found = work.execute(select(models.c.id, models.c.name).where(models.c.id.in_(sorted(set(ids)))))
    return {row.id: row.name for row in found}


def update_model(work: UnitOfWork, id: str, **changes: Any) -> None:
    work.execute(update(models).where(models.c.id == id).values(**changes))


def name_is_taken(work: UnitOfWork, project: str, name: str) -> bool:
    return find(work, project, name) is not None


def next_move(work: UnitOfWork, id: str, now: Moment) -> int:
    """The number of one move more; the row is held already."""
    counted = update(models).where(models.c.id == id).values(last_move=models.c.last_move + 1, changed=now)
    return int(work.execute(counted.returning(models.c.last_move)).scalar_one())


def version_counts(work: UnitOfWork, ids: Collection[str]) -> dict[str, int]:
    counted = select(versions.c.model, func.count().label("versions")).where(
        versions.c.model.in_(ids), versions.c.deleted.is_(None)
    )
    return {row.model: row.versions for row in work.execute(counted.group_by(versions.c.model))}


# Tags


def put_tag(work: UnitOfWork, table: Any, owner: Mapping[str, str], key: str, value: str) -> None:
    """Of a model or a version; `owner` names the column and the id."""
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values({**owner, "key": key, "value": value})
    places = [column.name for column in table.primary_key]
    work.execute(statement.on_conflict_do_update(index_elements=places, set_={"value": value}))


def set_tag(work: UnitOfWork, id: str, key: str, value: str) -> None:
    put_tag(work, model_tags, {"model": id}, key, value)


def remove_tag(work: UnitOfWork, id: str, key: str) -> None:
    work.execute(delete(model_tags).where(model_tags.c.model == id, model_tags.c.key == key))


def tags_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(model_tags).where(model_tags.c.model.in_(ids)).order_by(model_tags.c.key)):
        found.setdefault(row.model, []).append(row)
    return found


# Aliases


def aliases_of(work: UnitOfWork, ids: Collection[str]) -> Sequence[Found]:
    return work.execute(select(aliases).where(aliases.c.model.in_(ids)).order_by(aliases.c.alias)).all()


def aliased_version(work: UnitOfWork, id: str, alias: str) -> int:
    """The number of the version the alias points at; 0 where it points at none."""
    found = select(aliases.c.version).where(aliases.c.model == id, aliases.c.alias == alias)
    return int(work.execute(found).scalar() or 0)


def point_alias(work: UnitOfWork, id: str, alias: str, version: int) -> None:
    """0 removes it."""
    mine = (aliases.c.model == id, aliases.c.alias == alias)
    work.execute(delete(aliases).where(*mine))
    if version:
        work.execute(insert(aliases).values(model=id, alias=alias, version=version))
