"""SQL of what lives for minutes: sign-in codes, sign-ins under way, id_tokens already used. Secrets are stored as hashes."""

import json
from collections.abc import Iterable

from sqlalchemy import BigInteger, Column, String, Table, Text, delete, insert, select

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork, metadata

codes = Table(
    "governance_sign_in_codes",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("principal", String(32), nullable=False, index=True),
    Column("scopes", Text, nullable=False),
    Column("projects", Text, nullable=False),
    Column("zone", String(100), nullable=False),
    Column("reach", BigInteger),
    Column("parent", String(32)),
    Column("expires", BigInteger, nullable=False, index=True),
)
oidc_states = Table(
    "governance_oidc_states",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("verifier", String(128), nullable=False),
    Column("nonce", String(128), nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
)
used_id_tokens = Table(
    "governance_used_id_tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("expires", BigInteger, nullable=False, index=True),
)


@value
class SignInCode:
    """`parent` is the token that made it; null for an invitation."""

    principal: str
    scopes: frozenset[str]
    projects: frozenset[str]
    zone: str
    reach: Moment | None
    parent: str | None
    expires: Moment


@value
class OidcState:
    verifier: str
    nonce: str
    expires: Moment


def add_code(work: UnitOfWork, hash: str, code: SignInCode) -> None:
    work.execute(
        insert(codes).values(
            hash=hash,
            principal=code.principal,
            scopes=json.dumps(sorted(code.scopes)),
            projects=json.dumps(sorted(code.projects)),
            zone=code.zone,
            reach=code.reach,
            parent=code.parent,
            expires=code.expires,
        )
    )


def take_code(work: UnitOfWork, hash: str) -> SignInCode | None:
    """Found and removed in one statement: of two that come at once, one gets it."""
    row = work.execute(delete(codes).where(codes.c.hash == hash).returning(*codes.c)).first()
    if row is None:
        return None
    return SignInCode(
        principal=row.principal,
        scopes=frozenset(json.loads(row.scopes)),
        projects=frozenset(json.loads(row.projects)),
        zone=row.zone,
        reach=None if row.reach is None else Moment(row.reach),
        parent=row.parent,
        expires=Moment(row.expires),
    )


def forget_codes_of(work: UnitOfWork, principal: str) -> None:
    work.execute(delete(codes).where(codes.c.principal == principal))


def add_oidc_state(work: UnitOfWork, hash: str, state: OidcState) -> None:
    work.execute(insert(oidc_states).values(hash=hash, verifier=state.verifier, nonce=state.nonce, expires=state.expires))


def oidc_state(work: UnitOfWork, hash: str) -> OidcState | None:
    row = work.execute(select(oidc_states).where(oidc_states.c.hash == hash)).first()
    return None if row is None else OidcState(verifier=row.verifier, nonce=row.nonce, expires=Moment(row.expires))


def take_oidc_state(work: UnitOfWork, hash: str) -> bool:
    return work.execute(delete(oidc_states).where(oidc_states.c.hash == hash)).rowcount > 0


def use_id_token(work: UnitOfWork, hash: str, expires: Moment) -> bool:
    """False where it was used before."""
    if work.execute(select(used_id_tokens.c.hash).where(used_id_tokens.c.hash == hash)).first() is not None:
        return False
    work.execute(insert(used_id_tokens).values(hash=hash, expires=expires))
    return True


def forget_expired(work: UnitOfWork, now: Moment) -> int:
    tables: Iterable[Table] = (codes, oidc_states, used_id_tokens)
    return sum(work.execute(delete(table).where(table.c.expires < now)).rowcount for table in tables)
