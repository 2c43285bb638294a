"""One-time sign-in codes: as strong as a token, good for one session, stored as a hash."""

import secrets
from typing import Final

from falaj.base.clock import DAY, MINUTE, Moment
from falaj.database.work import UnitOfWork
from falaj.governance.gate import token_hash
from falaj.governance.sessions.store import SignInCode, add_code

CODE_LIFE: Final = 10 * MINUTE
# An invitation has to reach a person first.
INVITATION_LIFE: Final = DAY


def make_code(
    work: UnitOfWork,
    *,
    principal: str,
    zone: str,
    now: Moment,
    life: int,
    scopes: frozenset[str] = frozenset(),
    projects: frozenset[str] = frozenset(),
    reach: Moment | None = None,
    parent: str | None = None,
) -> tuple[str, Moment]:
    """The code, shown once, and when it ends. It carries the bounds of the token that made it on to the session."""
    code, expires = secrets.token_urlsafe(32), Moment(now + life)
    kept = SignInCode(
        principal=principal, scopes=scopes, projects=projects, zone=zone, reach=reach, parent=parent, expires=expires
    )
    add_code(work, token_hash(code), kept)
    return code, expires
