"""Making tokens. The law: nothing made with a token has more power, a longer life or another zone than its maker may give.

`bounded` decides and is pure; `mint` makes the secret, of which only the hash is stored.
"""

import secrets
from collections.abc import Mapping
from typing import Final

from falaj.base.caller import Identity
from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid
from falaj.base.ids import TokenId
from falaj.base.operation import Group, Permission
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import TOKEN_PREFIX, token_hash
from falaj.governance.identity.store import StoredToken, add_token, live_token_count, token_by_id

MOST_TOKENS: Final = 1_000
_GROUPS: Final = frozenset(str(group) for group in Group)


@value
class Wish:
    """What a new token is asked to be. Empty scopes, projects and zone mean the maker's; no `life`: the longest there is."""

    scopes: tuple[str, ...]
    projects: tuple[str, ...]
    zone: str
    life: int


@value
class Bounds:
    """What it will be. `reach` is the latest moment that its own offspring may live to."""

    scopes: frozenset[str]
    projects: frozenset[str]
    zone: str
    expires: Moment
    reach: Moment | None


@value
class Minted:
    id: TokenId
    secret: str


def maker_of(context: Context) -> StoredToken:
    """The token this call is made with, where it is one that may bring forth others."""
    identity = context.identity
    token = None if identity.token is None else token_by_id(context.work, identity.token)
    if token is None or identity.kind == "process":
        raise Forbidden("A short-lived token cannot make others; use an API token or a session.", rule="token.process")
    return token


def bounded(
    identity: Identity,
    maker: StoredToken,
    wish: Wish,
    *,
    longest: int,
    permissions: Mapping[str, Permission],
    now: Moment,
    own_zone: bool = True,
) -> Bounds:
    """Hold the wish against its maker. `own_zone`: the zone must be the maker's, where that has one.

    A session stands for a person who just signed in, so what it makes may outlive it, up to its `reach`; an API token's
    offspring ends with it at the latest.
    """
    limit = now + longest if maker.reach is None else min(now + longest, maker.reach)
    expires = now + wish.life if wish.life else limit
    if expires > limit:
        raise Forbidden(
            f"This token would live until {Moment(expires)}; at most {Moment(limit)} can be given here.", rule="token.life"
        )
    if own_zone and identity.zone and wish.zone not in ("", identity.zone):
        raise Forbidden(f"Your token runs in zone {identity.zone!r} and cannot make one for {wish.zone!r}.", rule="token.zone")
    return Bounds(
        scopes=_scopes(identity.scopes, wish.scopes, permissions),
        projects=_projects(identity.projects, wish.projects),
        zone=wish.zone or identity.zone,
        expires=Moment(expires),
        reach=Moment(expires),
    )


def _scopes(held: frozenset[str], wished: tuple[str, ...], permissions: Mapping[str, Permission]) -> frozenset[str]:
    unknown = sorted(scope for scope in wished if scope not in _GROUPS and scope not in permissions)
    if unknown:
        raise Invalid(
            f"Unknown scopes: {', '.join(unknown)}. A scope is a permission such as blob.get, or a group such as read."
        )
    if not held or not wished:
        return frozenset(wished) or held
    beyond = sorted(scope for scope in wished if not covers(held, scope, permissions))
    if beyond:
        raise Forbidden(f"Your own token does not have these scopes: {', '.join(beyond)}.", rule="token.scope")
    return frozenset(wished)


def covers(held: frozenset[str], scope: str, permissions: Mapping[str, Permission]) -> bool:
    return scope in held or (scope in permissions and permissions[scope].group in held)


def _projects(held: frozenset[str], wished: tuple[str, ...]) -> frozenset[str]:
    if held and not held.issuperset(wished):
        raise Forbidden("Your own token does not reach all of these projects.", rule="token.project")
    return frozenset(wished) or held


def new_secret() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def mint(work: UnitOfWork, *, principal: str, kind: str, label: str, bounds: Bounds, parent: str | None, now: Moment) -> Minted:
    secret = new_secret()
    id = add_token(
        work,
        hash=token_hash(secret),
        principal=principal,
        kind=kind,
        label=label,
        scopes=bounds.scopes,
        projects=bounds.projects,
        zone=bounds.zone,
        now=now,
        expires=bounds.expires,
        reach=bounds.reach,
        parent=parent,
    )
    # After adding, so that two who make one at the same moment count each other's. A fresh sign-in is let through: whoever
    # filled an account with tokens must not thereby keep its person out.
    if parent is not None and live_token_count(work, principal, now) > MOST_TOKENS:
        raise Conflict(f"This account has {MOST_TOKENS} valid tokens already; revoke some, or wait until they expire.")
    return Minted(id=id, secret=secret)


def life_of(days: int) -> int:
    return days * DAY
