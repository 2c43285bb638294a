"""SQL of principals, memberships, groups and tokens. Every change here begins a new generation."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from falaj.base.clock import DAY, Moment
from falaj.base.ids import PrincipalId, TokenId, new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork, metadata
from falaj.governance.roles import Role
from falaj.governance.store import changed

# `owner` is the project a service account belongs to, and empty for people: names are unique among people and in each project.
principals = Table(
    "governance_principals",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("owner", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("display", String(200), nullable=False),
    Column("email", String(320), nullable=False),
    Column("issuer", String(500)),
    Column("subject", String(255)),
    Column("disabled", Boolean, nullable=False),
    Column("erased", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
    UniqueConstraint("owner", "name", name="governance_principals_name"),
    UniqueConstraint("issuer", "subject", name="governance_principals_subject"),
)
# `source` is the identity provider's group that gave the role, and empty where somebody gave it by hand.
memberships = Table(
    "governance_memberships",
    metadata,
    Column("principal", String(32), primary_key=True),
    Column("scope", String(32), primary_key=True),
    Column("role", String(20), primary_key=True),
    Column("source", String(200), primary_key=True),
    Column("created", BigInteger, nullable=False),
    Index("governance_memberships_scope", "scope", "principal"),
)
groups = Table(
    "governance_group_roles",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("scope", String(32), primary_key=True),
    Column("role", String(20), primary_key=True),
)
# `reach` is the latest moment that anything made with this token may live to; null where only the profile says.
tokens = Table(
    "governance_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("principal", String(32), nullable=False, index=True),
    Column("kind", String(10), nullable=False),
    Column("label", String(100), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("projects", Text, nullable=False),
    Column("zone", String(100), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("reach", BigInteger),
    Column("revoked", BigInteger),
    Column("parent", String(32), index=True),
    Column("last_used_day", Integer),
)

NO_OWNER: Final = ""


@value
class Principal:
    id: PrincipalId
    kind: str
    owner: str
    name: str
    display: str
    email: str
    issuer: str
    disabled: bool
    erased: bool
    created: Moment


@value
class Membership:
    principal: PrincipalId
    scope: str
    role: Role
    source: str


@value
class StoredToken:
    id: TokenId
    principal: PrincipalId
    kind: str
    label: str
    scopes: frozenset[str]
    projects: frozenset[str]
    zone: str
    created: Moment
    expires: Moment
    reach: Moment | None
    revoked: Moment | None
    last_used: Moment | None


def _principal(row: Row[Any]) -> Principal:
    return Principal(
        id=PrincipalId(row.id),
        kind=row.kind,
        owner=row.owner,
        name=row.name,
        display=row.display,
        email=row.email,
        issuer=row.issuer or "",
        disabled=row.disabled,
        erased=row.erased,
        created=Moment(row.created),
    )


def _membership(row: Row[Any]) -> Membership:
    return Membership(principal=PrincipalId(row.principal), scope=row.scope, role=Role(row.role), source=row.source)


def _moment(number: int | None) -> Moment | None:
    return None if number is None else Moment(number)


def _token(row: Row[Any]) -> StoredToken:
    return StoredToken(
        id=TokenId(row.id),
        principal=PrincipalId(row.principal),
        kind=row.kind,
        label=row.label,
        scopes=frozenset(json.loads(row.scopes)),
        projects=frozenset(json.loads(row.projects)),
        zone=row.zone,
        created=Moment(row.created),
        expires=Moment(row.expires),
        reach=_moment(row.reach),
        revoked=_moment(row.revoked),
        last_used=None if row.last_used_day is None else Moment(row.last_used_day * DAY),
    )


# Principals


def add_principal(
    work: UnitOfWork,
    *,
    kind: str,
    name: str,
    now: Moment,
    owner: str = NO_OWNER,
    display: str = "",
    email: str = "",
    issuer: str | None = None,
    subject: str | None = None,
) -> PrincipalId:
    id = PrincipalId(new_id(now))
    work.execute(
        insert(principals).values(
            id=id,
            kind=kind,
            owner=owner,
            name=name,
            display=display,
            email=email,
            issuer=issuer,
            subject=subject,
            disabled=False,
            erased=False,
            created=now,
        )
    )
    changed(work)
    return id


def principal_by_id(work: UnitOfWork, id: str) -> Principal | None:
    row = work.execute(select(principals).where(principals.c.id == id)).first()
    return None if row is None else _principal(row)


def principal_named(work: UnitOfWork, name: str, owner: str = NO_OWNER) -> Principal | None:
    row = work.execute(select(principals).where(principals.c.owner == owner, principals.c.name == name)).first()
    return None if row is None else _principal(row)


def person_among(work: UnitOfWork, names_or_ids: Sequence[str]) -> str:
    """The id of a person that one of these texts names; empty where none does."""
    if not names_or_ids:
        return ""
    meant = or_(principals.c.name.in_(names_or_ids), principals.c.id.in_(names_or_ids))
    row = work.execute(select(principals.c.id).where(principals.c.owner == NO_OWNER, meant).limit(1)).first()
    return "" if row is None else str(row.id)


def principal_with_subject(work: UnitOfWork, issuer: str, subject: str) -> Principal | None:
    row = work.execute(select(principals).where(principals.c.issuer == issuer, principals.c.subject == subject)).first()
    return None if row is None else _principal(row)


def principals_after(work: UnitOfWork, *, kind: str, owner: str, after: str, limit: int) -> list[Principal]:
    of_kind = select(principals).where(principals.c.kind == kind, principals.c.owner == owner, principals.c.id > after)
    return [_principal(row) for row in work.execute(of_kind.order_by(principals.c.id).limit(limit))]


def principals_with_ids(work: UnitOfWork, ids: Iterable[str]) -> dict[str, Principal]:
    rows = work.execute(select(principals).where(principals.c.id.in_(sorted(set(ids)))))
    return {row.id: _principal(row) for row in rows}


def describe_principal(work: UnitOfWork, id: PrincipalId, *, display: str, email: str) -> None:
    work.execute(update(principals).where(principals.c.id == id).values(display=display, email=email))
    changed(work)


def set_disabled(work: UnitOfWork, id: PrincipalId, disabled: bool) -> None:
    work.execute(update(principals).where(principals.c.id == id).values(disabled=disabled))
    changed(work)


def erase_principal(work: UnitOfWork, id: PrincipalId, *, now: Moment) -> None:
    """Everything that names or describes the person goes; the id, which says nothing, stays for the records."""
    work.execute(
        update(principals)
        .where(principals.c.id == id)
        .values(name=f"erased-{id}", display="", email="", issuer=None, subject=None, disabled=True, erased=True)
    )
    work.execute(delete(memberships).where(memberships.c.principal == id))
    revoke_all_tokens(work, id, now=now)  # first: what they made for others is found through them
    work.execute(delete(tokens).where(tokens.c.principal == id))
    changed(work)


# Memberships and groups


def memberships_of(work: UnitOfWork, principal: str) -> list[Membership]:
    rows = work.execute(
        select(memberships).where(memberships.c.principal == principal).order_by(memberships.c.scope, memberships.c.role)
    )
    return [_membership(row) for row in rows]


def members_after(work: UnitOfWork, scope: str, *, after: str, limit: int) -> list[tuple[Membership, Principal]]:
    """One row for each principal, role and source; `after` is the last key of the page before, principal/role/source."""
    key = memberships.c.principal + "/" + memberships.c.role + "/" + memberships.c.source
    found = select(memberships).where(memberships.c.scope == scope, key > after).order_by(key).limit(limit)
    rows = [_membership(row) for row in work.execute(found)]
    known = principals_with_ids(work, (row.principal for row in rows))
    return [(row, known[row.principal]) for row in rows]


def add_membership(work: UnitOfWork, principal: str, scope: str, role: Role, *, now: Moment, source: str = "") -> bool:
    """Whether it is new."""
    at = (
        memberships.c.principal == principal,
        memberships.c.scope == scope,
        memberships.c.role == role,
        memberships.c.source == source,
    )
    if work.execute(select(memberships.c.role).where(*at)).first() is not None:
        return False
    work.execute(insert(memberships).values(principal=principal, scope=scope, role=role, source=source, created=now))
    changed(work)
    return True


def remove_membership(work: UnitOfWork, principal: str, scope: str, role: Role) -> bool:
    """Take back a role that was given by hand; those that come from groups go with the group."""
    gone = work.execute(
        delete(memberships).where(
            memberships.c.principal == principal,
            memberships.c.scope == scope,
            memberships.c.role == role,
            memberships.c.source == "",
        )
    ).rowcount
    changed(work)
    return gone > 0


def other_admin_exists(work: UnitOfWork, scope: str, besides: str) -> bool:
    """Whether an enabled principal other than `besides` is admin of the scope."""
    able = select(principals.c.id).where(principals.c.id == memberships.c.principal, principals.c.disabled.is_(False))
    found = select(memberships.c.principal).where(
        memberships.c.scope == scope, memberships.c.role == Role.ADMIN, memberships.c.principal != besides, exists(able)
    )
    return work.execute(found.limit(1)).first() is not None


def replace_group_roles(work: UnitOfWork, principal: PrincipalId, member_of: Iterable[str], *, now: Moment) -> int:
    """Recompute the roles that come from groups; how many there are now."""
    work.execute(delete(memberships).where(memberships.c.principal == principal, memberships.c.source != ""))
    rows = work.execute(select(groups).where(groups.c.name.in_(sorted(set(member_of))))).all()
    for row in rows:
        work.execute(
            insert(memberships).values(principal=principal, scope=row.scope, role=row.role, source=row.name, created=now)
        )
    changed(work)
    return len(rows)


def any_group_mapped(work: UnitOfWork, member_of: Iterable[str]) -> bool:
    return work.execute(select(groups.c.name).where(groups.c.name.in_(sorted(set(member_of)))).limit(1)).first() is not None


def map_group(work: UnitOfWork, name: str, scope: str, role: Role) -> None:
    at = (groups.c.name == name, groups.c.scope == scope, groups.c.role == role)
    if work.execute(select(groups.c.name).where(*at)).first() is None:
        work.execute(insert(groups).values(name=name, scope=scope, role=role))
        changed(work)


def unmap_group(work: UnitOfWork, name: str, scope: str, role: Role) -> bool:
    """The roles it gave go at once, not at the next sign-in."""
    gone = work.execute(delete(groups).where(groups.c.name == name, groups.c.scope == scope, groups.c.role == role)).rowcount
    work.execute(
        delete(memberships).where(memberships.c.scope == scope, memberships.c.role == role, memberships.c.source == name)
    )
    changed(work)
    return gone > 0


def groups_of(work: UnitOfWork, scope: str) -> list[tuple[str, Role]]:
    rows = work.execute(select(groups).where(groups.c.scope == scope).order_by(groups.c.name, groups.c.role).limit(1000))
    return [(row.name, Role(row.role)) for row in rows]


# Tokens


def add_token(
    work: UnitOfWork,
    *,
    hash: str,
    principal: str,
    kind: str,
    label: str,
    scopes: Iterable[str],
    projects: Iterable[str],
    zone: str,
    now: Moment,
    expires: Moment,
    reach: Moment | None,
    parent: str | None,
) -> TokenId:
    id = TokenId(new_id(now))
    work.execute(
        insert(tokens).values(
            id=id,
            hash=hash,
            principal=principal,
            kind=kind,
            label=label,
            scopes=json.dumps(sorted(scopes)),
            projects=json.dumps(sorted(projects)),
            zone=zone,
            created=now,
            expires=expires,
            reach=reach,
            parent=parent,
        )
    )
    changed(work)
    return id


def token_by_hash(work: UnitOfWork, hash: str) -> StoredToken | None:
    row = work.execute(select(tokens).where(tokens.c.hash == hash)).first()
    return None if row is None else _token(row)


def token_by_id(work: UnitOfWork, id: str) -> StoredToken | None:
    row = work.execute(select(tokens).where(tokens.c.id == id)).first()
    return None if row is None else _token(row)


# A job's tokens are made and revoked by the platform: they are neither shown nor counted as their person's own.
_NO_JOB: Final = tokens.c.kind != "job"


def tokens_after(work: UnitOfWork, principal: str, *, after: str, limit: int) -> list[StoredToken]:
    own = (tokens.c.principal == principal, tokens.c.id > after, _NO_JOB)
    found = select(tokens).where(*own).order_by(tokens.c.id).limit(limit)
    return [_token(row) for row in work.execute(found)]


def live_token_count(work: UnitOfWork, principal: str, now: Moment) -> int:
    live = (tokens.c.principal == principal, tokens.c.revoked.is_(None), tokens.c.expires > now, _NO_JOB)
    return int(work.execute(select(func.count()).select_from(tokens).where(*live)).scalar_one())


def revoke_token(work: UnitOfWork, id: str, *, now: Moment, descendants: bool) -> None:
    """A token, and with `descendants` all that was made with it."""
    _revoke(work, tokens.c.id == id, now=now, descendants=descendants)


def revoke_all_tokens(work: UnitOfWork, principal: str, *, now: Moment) -> None:
    """All tokens of a principal and all that was made with them, those of others included."""
    _revoke(work, tokens.c.principal == principal, now=now, descendants=True)


def _revoke(work: UnitOfWork, first: ColumnElement[bool], *, now: Moment, descendants: bool) -> None:
    """In one statement, however many there are: the database walks from parent to child."""
    family = select(tokens.c.id).where(first).cte("family", recursive=descendants)
    if descendants:
        family = family.union(select(tokens.c.id).join(family, tokens.c.parent == family.c.id))
    work.execute(update(tokens).where(tokens.c.id.in_(select(family.c.id)), tokens.c.revoked.is_(None)).values(revoked=now))
    changed(work)


def note_use(work: UnitOfWork, ids: Iterable[str], day: int) -> None:
    """The day alone, so that the table is no diary; decisions do not depend on it, so the generation stays."""
    unnoted = or_(tokens.c.last_used_day.is_(None), tokens.c.last_used_day < day)
    work.execute(update(tokens).where(tokens.c.id.in_(sorted(ids)), unnoted).values(last_used_day=day))


def remove_tokens_expired_before(work: UnitOfWork, moment: Moment, limit: int) -> int:
    """Forget tokens long dead. One with children stays until they are gone: revoking finds descendants by their parents."""
    child = tokens.alias("child")
    childless = ~exists(select(child.c.id).where(child.c.parent == tokens.c.id))
    old = select(tokens.c.id).where(tokens.c.expires < moment, childless).limit(limit)
    return work.execute(delete(tokens).where(tokens.c.id.in_(old))).rowcount


def people_count(work: UnitOfWork) -> int:
    return int(work.execute(select(func.count()).select_from(principals).where(principals.c.kind == "person")).scalar_one())
