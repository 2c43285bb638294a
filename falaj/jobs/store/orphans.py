"""SQL of what jobs must not go on without: a project that is open, and somebody who may be there."""

from typing import Final

from sqlalchemy import select

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import principals
from falaj.governance.projects.store import projects
from falaj.storage.store import keys

_ARCHIVED: Final = Prepared(select(projects.c.id).where(projects.c.archived.is_(True)))
_SHREDDED: Final = Prepared(select(keys.c.project).where(keys.c.shredded.is_not(None)))
_SHUT_OUT: Final = Prepared(select(principals.c.id).where(principals.c.disabled.is_(True)))


def closed_projects(work: UnitOfWork) -> frozenset[str]:
    """Those that are archived, or whose key is shredded."""
    return frozenset(id for statement in (_ARCHIVED, _SHREDDED) for (id,) in statement.all(work))


def shut_out(work: UnitOfWork) -> frozenset[str]:
    """The accounts that are disabled or erased."""
    return frozenset(id for (id,) in _SHUT_OUT.all(work))
