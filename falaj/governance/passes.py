"""Short-lived signed tokens that processes carry: EdDSA, verified without the database by whoever has the public keys."""

from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import Unauthenticated
from falaj.base.ids import PrincipalId, TokenId, new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.keys.claims import NotGenuine, read_claims, sign_claims
from falaj.keys.signing import SigningKeys

LONGEST_LIFE: Final = 15 * MINUTE
LONGEST_TEXT: Final = 8000
PURPOSE: Final = "passes"
AUDIENCE: Final = "falaj"
# Two machines' clocks may differ by this much when a fresh token is said to be not yet valid.
SKEW: Final = 30 * SECOND
TYPE: Final = "falaj-pass+jwt"
_REQUIRED: Final = ("iss", "aud", "sub", "jti", "iat", "nbf", "exp", "tok", "scopes", "projects", "zone")


@value
class Claims:
    """What a pass says. `token` is the token it was exchanged for: it falls with it."""

    principal: PrincipalId
    token: TokenId
    scopes: frozenset[str]
    projects: frozenset[str]
    zone: str
    not_before: Moment
    expires: Moment


def refused() -> Unauthenticated:
    """One answer for every way of being wrong, so that a forger learns nothing from it."""
    return Unauthenticated("This token is not valid: unknown, expired, revoked or not made here. Sign in again.")


class Passes:
    """Issues and verifies. Thread-safe. `issuer` names this platform; another platform's passes are refused."""

    def __init__(self, *, issuer: str, keys: SigningKeys) -> None:
        self._issuer = issuer
        self._keys = keys

    def prepare(self, work: UnitOfWork, now: Moment) -> None:
        """Make the signing key where there is none yet."""
        self._keys.prepare(work, PURPOSE, now)

    def issue(self, work: UnitOfWork, claims: Claims, now: Moment) -> str:
        if not now < claims.expires <= now + LONGEST_LIFE:
            raise ValueError("a pass lives for at most 15 minutes")
        signer = self._keys.current(work, PURPOSE)
        payload = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": claims.principal,
            "jti": new_id(now),
            "iat": now // SECOND,
            "nbf": claims.not_before // SECOND,
            "exp": claims.expires // SECOND,
            "tok": claims.token,
            "scopes": sorted(claims.scopes),
            "projects": sorted(claims.projects),
            "zone": claims.zone,
        }
        return sign_claims(signer, TYPE, payload)

    def verify(self, work: UnitOfWork, text: str, now: Moment) -> Claims:
        """Whether its token and principal still stand is for the gate. A retired key is trusted as long as a pass may live."""
        keys = self._keys.public(work, PURPOSE)
        trusted = {key.id: key.public for key in keys if key.retired is None or now < key.retired + LONGEST_LIFE}
        return verify_pass(text, trusted, issuer=self._issuer, now=now)


def verify_pass(text: str, trusted: Mapping[str, bytes], *, issuer: str, now: Moment) -> Claims:
    """Check everything a pass claims against raw public keys by their id. Every refusal has the same words."""
    if len(text) > LONGEST_TEXT:
        raise refused()
    try:
        keys = {id: Ed25519PublicKey.from_public_bytes(public) for id, public in trusted.items()}
        claims = _claims(read_claims(text, keys, kind=TYPE, issuer=issuer, required=_REQUIRED, audience=AUDIENCE))
    except (NotGenuine, ValueError, TypeError, KeyError) as error:
        raise refused() from error
    check_times(claims, now)
    return claims


def check_times(claims: Claims, now: Moment) -> None:
    if not claims.not_before - SKEW <= now < claims.expires or claims.expires - claims.not_before > LONGEST_LIFE + SECOND:
        raise refused()


def _claims(said: Mapping[str, Any]) -> Claims:
    for name in ("sub", "jti", "tok", "zone"):
        if not isinstance(said[name], str):
            raise TypeError(name)
    for name in ("iat", "nbf", "exp"):
        if type(said[name]) is not int:
            raise TypeError(name)
    for name in ("scopes", "projects"):
        if not isinstance(said[name], list) or not all(isinstance(entry, str) for entry in said[name]):
            raise TypeError(name)
    return Claims(
        principal=PrincipalId(said["sub"]),
        token=TokenId(said["tok"]),
        scopes=frozenset(said["scopes"]),
        projects=frozenset(said["projects"]),
        zone=said["zone"],
        not_before=Moment(said["nbf"] * SECOND),
        expires=Moment(said["exp"] * SECOND),
    )
