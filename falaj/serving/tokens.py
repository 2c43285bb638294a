"""Tokens that endpoints take: EdDSA, verified by planes on their own, by the keys that the signed state names.

Light, because planes use it too.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Unauthenticated
from falaj.base.values import ID_PATTERN, value
from falaj.keys.claims import NotGenuine, Signs, header_of, read_claims, sign_claims

LONGEST_LIFE: Final = 366 * DAY
LONGEST_TEXT: Final = 8000
MOST_ENDPOINTS: Final = 100
# Two machines' clocks may differ by this much when a fresh token is said to be not yet valid.
SKEW: Final = 30 * SECOND
TYPE: Final = "falaj-endpoint+jwt"
_ENDPOINT: Final = "endpoint:"
_PROJECT: Final = "project:"
_REQUIRED: Final = frozenset({"iss", "aud", "sub", "jti", "iat", "nbf", "exp", "prj", "manage"})
_ID: Final = re.compile(ID_PATTERN)
_SIGNATURE: Final = 86  # characters: 64 bytes in base64


@value
class Claims:
    """What a token says. `endpoints` are ids; empty for all that the project has. `manage` admits the repository extension."""

    principal: str
    id: str
    project: str
    endpoints: frozenset[str]
    manage: bool
    not_before: Moment
    expires: Moment

    def reaches(self, endpoint: str) -> bool:
        """Whether it is good for an endpoint of its project."""
        return not self.endpoints or endpoint in self.endpoints


def refused() -> Unauthenticated:
    """One answer for every way of being wrong, so that a forger learns nothing from it."""
    return Unauthenticated("This token is not valid: unknown, expired, revoked or not made for this. Ask for a new one.")


def issue(signer: Signs, claims: Claims, *, issuer: str, now: Moment) -> str:
    if not now < claims.expires <= claims.not_before + LONGEST_LIFE or len(claims.endpoints) > MOST_ENDPOINTS:
        raise ValueError("a token ends in the future, lives for at most 366 days and names at most 100 endpoints")
    payload = {
        "iss": issuer,
        "aud": [_ENDPOINT + id for id in sorted(claims.endpoints)] or [_PROJECT + claims.project],
        "sub": claims.principal,
        "jti": claims.id,
        "iat": now // SECOND,
        "nbf": claims.not_before // SECOND,
        "exp": claims.expires // SECOND,
        "prj": claims.project,
        "manage": claims.manage,
    }
    return sign_claims(signer, TYPE, payload)


def headers_of(keys: Iterable[str]) -> frozenset[str]:
    """What tokens by these keys begin with; for `look_over`."""
    return frozenset(header_of(key, TYPE) for key in keys)


def look_over(text: str, headers: Collection[str], *, issuer: str, now: Moment) -> Claims:
    """What a token claims, before its signature is looked at: proves nothing, but refuses what cannot be ours in a tenth of the
    time that a signature takes."""
    if len(text) > LONGEST_TEXT:
        raise refused()
    header, _, rest = text.partition(".")
    payload, _, signature = rest.partition(".")
    if header not in headers or len(signature) != _SIGNATURE:
        raise refused()
    try:
        said = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if said["iss"] != issuer:
            raise refused()
        claims = _claims(said)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise refused() from error
    check_times(claims, now)
    return claims


def verify(text: str, trusted: Mapping[str, Ed25519PublicKey], *, issuer: str, now: Moment) -> Claims:
    """Check everything a token claims, by public keys under their ids. Every refusal has the same words.

    Whether its id was revoked is for the caller, who has the state.
    """
    if len(text) > LONGEST_TEXT:
        raise refused()
    try:
        # The audience is held against the project, below.
        claims = _claims(read_claims(text, trusted, kind=TYPE, issuer=issuer, required=_REQUIRED))
    except (NotGenuine, ValueError, TypeError, KeyError) as error:
        raise refused() from error
    check_times(claims, now)
    return claims


def check_times(claims: Claims, now: Moment) -> None:
    """For whoever remembers verified tokens: what was good may have ended since."""
    if not claims.not_before - SKEW <= now < claims.expires or claims.expires - claims.not_before > LONGEST_LIFE + SECOND:
        raise refused()


def _claims(said: Mapping[str, Any]) -> Claims:
    if set(said) != _REQUIRED:
        raise KeyError("other claims than ours")
    for name in ("sub", "jti", "prj"):
        if not isinstance(said[name], str) or not _ID.fullmatch(said[name]):
            raise TypeError(name)
    for name in ("iat", "nbf", "exp"):
        if type(said[name]) is not int:
            raise TypeError(name)
    if type(said["manage"]) is not bool:
        raise TypeError("manage")
    return Claims(
        principal=said["sub"],
        id=said["jti"],
        project=said["prj"],
        endpoints=_endpoints(said["aud"], said["prj"]),
        manage=said["manage"],
        not_before=Moment(said["nbf"] * SECOND),
        expires=Moment(said["exp"] * SECOND),
    )


def _endpoints(audience: Any, project: str) -> frozenset[str]:
    """The audience is the whole project alone, or endpoints alone; an empty one would otherwise mean everything."""
    if audience == [_PROJECT + project]:
        return frozenset()
    if not isinstance(audience, list) or not 0 < len(audience) <= MOST_ENDPOINTS:
        raise TypeError("aud")
    ids = [entry[len(_ENDPOINT) :] for entry in audience if isinstance(entry, str) and entry.startswith(_ENDPOINT)]
    if len(ids) != len(audience) or not all(_ID.fullmatch(id) for id in ids):
        raise TypeError("aud")
    return frozenset(ids)
