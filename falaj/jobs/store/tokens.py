"""SQL of the tokens that attempts carry, many at a time: all of a turn begin one new generation."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, insert, select, update

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import principals, tokens
from falaj.governance.store import changed
from falaj.jobs.store.tables import Found

KIND: Final = "job"
_ADD: Final = Prepared(insert(tokens))
_ITSELF: Final = select(tokens.c.id).where(tokens.c.id == bindparam("token")).cte("family", recursive=True)
_FAMILY: Final = _ITSELF.union(select(tokens.c.id).join(_ITSELF, tokens.c.parent == _ITSELF.c.id))
_REVOKE: Final = Prepared(
    update(tokens).where(tokens.c.id.in_(select(_FAMILY.c.id)), tokens.c.revoked.is_(None)).values(revoked=bindparam("at"))
)
_REKEY: Final = Prepared(
    update(tokens).where(tokens.c.id == bindparam("token"), tokens.c.revoked.is_(None)).values(hash=bindparam("secret"))
)


def makers(work: UnitOfWork, ids: Collection[str]) -> dict[str, Found]:
    """The tokens that jobs were submitted with, each with who that was, and whether they are shut out."""
    columns = (tokens.c.id, tokens.c.principal, tokens.c.scopes, tokens.c.projects, tokens.c.reach, tokens.c.revoked)
    whose = (principals.c.kind, principals.c.name, principals.c.disabled)
    found = select(*columns, *whose).join(principals, principals.c.id == tokens.c.principal)
    return {row.id: row for row in work.execute(found.where(tokens.c.id.in_(sorted(ids))))}


def child(work: UnitOfWork, parent: str, label: str) -> str | None:
    """A good one that was made with that token for jobs."""
    good = (tokens.c.parent == parent, tokens.c.kind == KIND, tokens.c.label == label, tokens.c.revoked.is_(None))
    found: str | None = work.execute(select(tokens.c.id).where(*good).limit(1)).scalar()
    return found


def listed(names: Iterable[str]) -> str:
    return json.dumps(sorted(names))


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]], now: Moment) -> None:
    """`id`, `hash`, `principal`, `label`, `scopes` and `projects` as `listed` writes them, `zone`, `expires`, `parent`.
    What they make ends with them."""
    same = {"kind": KIND, "created": int(now), "revoked": None, "last_used_day": None}
    _ADD.run_many(work, [{**row, **same, "reach": row["expires"]} for row in rows])
    changed(work)


def rekey(work: UnitOfWork, id: str, hash: str) -> bool:
    """Let another secret stand for it; false where it was revoked."""
    if not _REKEY.run(work, token=id, secret=hash):
        return False
    changed(work)
    return True


def revoke(work: UnitOfWork, ids: Sequence[str], now: Moment) -> None:
    """Each with all that was made with it, so that nothing a job left behind goes on answering."""
    _REVOKE.run_many(work, [{"token": id, "at": int(now)} for id in ids])
    changed(work)
