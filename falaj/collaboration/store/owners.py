"""Who owns what: one owner for each thing."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Row, String, Table, and_, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata

owners = Table(
    "collaboration_owners",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("thing", String(32), primary_key=True),
    Column("principal", String(32), nullable=False),
    Column("since", BigInteger, nullable=False),
    Index("collaboration_owners_by_principal", "project", "principal"),
)


def _insert_or_replace() -> Prepared:
    statements = {}
    for engine in (postgresql, sqlite):
        statement = engine.insert(owners)
        changed = {name: statement.excluded[name] for name in ("principal", "since")}
        statements[engine.dialect.name] = statement.on_conflict_do_update(index_elements=owners.primary_key, set_=changed)
    return Prepared(statements)


_SET: Final = _insert_or_replace()


def set_owner(work: UnitOfWork, *, project: str, kind: str, thing: str, principal: str, now: Moment) -> None:
    _SET.run(work, project=project, kind=kind, thing=thing, principal=principal, since=now)


def remove_owner(work: UnitOfWork, *, project: str, kind: str, thing: str) -> None:
    at = (owners.c.project == project, owners.c.kind == kind, owners.c.thing == thing)
    work.execute(delete(owners).where(*at))


def owned(
    work: UnitOfWork, project: str, *, principal: str, kind: str, thing: str, after: tuple[str, str], limit: int
) -> Sequence[Row[Any]]:
    """In the order of kind and thing; empty texts mean any."""
    found = select(owners).where(owners.c.project == project)
    for column, wish in ((owners.c.principal, principal), (owners.c.kind, kind), (owners.c.thing, thing)):
        if wish:
            found = found.where(column == wish)
    behind = or_(owners.c.kind > after[0], and_(owners.c.kind == after[0], owners.c.thing > after[1]))
    return work.execute(found.where(behind).order_by(owners.c.kind, owners.c.thing).limit(limit)).all()
