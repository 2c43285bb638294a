"""SQL of the policies that projects, and the platform, add to the built-in ones."""

from typing import Any

from sqlalchemy import BigInteger, Column, Row, String, Table, Text, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork, metadata
from falaj.governance.store import changed

policies = Table(
    "governance_policies",
    metadata,
    Column("scope", String(32), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("text", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
)


@value
class StoredPolicy:
    scope: str
    name: str
    text: str
    created: Moment
    changed: Moment


def _policy(row: Row[Any]) -> StoredPolicy:
    return StoredPolicy(scope=row.scope, name=row.name, text=row.text, created=Moment(row.created), changed=Moment(row.changed))


def policies_of(work: UnitOfWork, scope: str) -> list[StoredPolicy]:
    return [_policy(row) for row in work.execute(select(policies).where(policies.c.scope == scope).order_by(policies.c.name))]


def policy_named(work: UnitOfWork, scope: str, name: str) -> StoredPolicy | None:
    row = work.execute(select(policies).where(policies.c.scope == scope, policies.c.name == name)).first()
    return None if row is None else _policy(row)


def put_policy(work: UnitOfWork, scope: str, name: str, text: str, *, now: Moment) -> None:
    at = (policies.c.scope == scope, policies.c.name == name)
    if work.execute(update(policies).where(*at).values(text=text, changed=now)).rowcount == 0:
        work.execute(insert(policies).values(scope=scope, name=name, text=text, created=now, changed=now))
    changed(work)


def remove_policy(work: UnitOfWork, scope: str, name: str) -> bool:
    gone = work.execute(delete(policies).where(policies.c.scope == scope, policies.c.name == name)).rowcount
    changed(work)
    return gone > 0
