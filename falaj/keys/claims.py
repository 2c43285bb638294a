"""Claims that one of the platform's keys signed, as a compact JWT: EdDSA alone, whose header can bring no key of its own.

Signed by hand, because private keys stay with their signer; verified by PyJWT, pinned. Times are for who knows the clock.
"""

import base64
import json
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class NotGenuine(Exception):
    """Not signed by one of the trusted keys, or not what it should be."""


class Signs(Protocol):
    """A private key that is kept elsewhere; `Signer` is one."""

    @property
    def key_id(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


def header_of(key_id: str, kind: str) -> str:
    """What everything that a key signed for this begins with, up to the first dot."""
    return _encoded({"alg": "EdDSA", "kid": key_id, "typ": kind})


def sign_claims(signer: Signs, kind: str, claims: Mapping[str, Any]) -> str:
    signed = f"{header_of(signer.key_id, kind)}.{_encoded(claims)}"
    return f"{signed}.{_base64(signer.sign(signed.encode()))}"


def read_claims(
    text: str,
    trusted: Mapping[str, Ed25519PublicKey],
    *,
    kind: str,
    issuer: str,
    required: Collection[str],
    audience: str | None = None,
) -> dict[str, Any]:
    """What was claimed. Without an audience, who asks looks at it. Raises `NotGenuine`, whatever is wrong."""
    try:
        header = jwt.get_unverified_header(text)
        # Exactly these three: no alg but ours, and no jwk, jku, x5u or crit that would let the token bring its own key.
        if set(header) != {"alg", "kid", "typ"} or header["alg"] != "EdDSA" or header["typ"] != kind:
            raise NotGenuine("another header")
        if (public := trusted.get(header["kid"])) is None:
            raise NotGenuine("an unknown key")
        options: Any = {
            "require": sorted(required),
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "verify_aud": audience is not None,
            "strict_aud": audience is not None,
        }
        return dict(jwt.decode(text, public, algorithms=["EdDSA"], audience=audience, issuer=issuer, options=options))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotGenuine(str(error)) from error


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _encoded(document: Mapping[str, Any]) -> str:
    return _base64(json.dumps(document, separators=(",", ":")).encode())
