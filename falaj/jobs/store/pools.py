"""SQL of hosts that can be had on demand, and of what they were seen to have."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from falaj.database.work import UnitOfWork
from falaj.jobs.store.news import NODES
from falaj.jobs.store.tables import Found, news, pool_hosts, pools


def every(work: UnitOfWork) -> Sequence[Found]:
    """Oldest first."""
    return work.execute(select(pool_hosts).order_by(pool_hosts.c.since, pool_hosts.c.name)).all()


def put(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    _put(work, pool_hosts, row)


def remove(work: UnitOfWork, name: str) -> None:
    work.execute(delete(pool_hosts).where(pool_hosts.c.name == name))


def seen(work: UnitOfWork) -> Sequence[Found]:
    """What hosts of each pool were seen to have."""
    return work.execute(select(pools)).all()


def put_seen(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    """`name`, `declared` and `facts`."""
    _put(work, pools, row)


def is_anything_unheard(work: UnitOfWork) -> bool:
    """Whether the controller has not heard yet of a host that drains."""
    return bool(work.execute(select(exists().where(news.c.kind == NODES))).scalar())


def _put(work: UnitOfWork, table: Any, row: Mapping[str, Any]) -> None:
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    inserted = dialect.insert(table).values(row)
    told = {column.name: inserted.excluded[column.name] for column in table.columns if not column.primary_key}
    work.execute(inserted.on_conflict_do_update(index_elements=list(table.primary_key), set_=told))
