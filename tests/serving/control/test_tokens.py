"""Tokens for endpoints: what is issued verifies, and nothing else does."""

import base64
import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, MINUTE, SECOND, Moment
from falaj.base.errors import Unauthenticated
from falaj.keys.signing import Signer
from falaj.serving.tokens import LONGEST_LIFE, SKEW, TYPE, Claims, check_times, issue, verify

NOW = Moment.parse("2026-11-15T09:00:00Z")
PRIVATE = Ed25519PrivateKey.generate()
SIGNER = Signer("a" * 32, PRIVATE)
TRUSTED = {"a" * 32: PRIVATE.public_key()}
CLAIMS = Claims(
    principal="1" * 32,
    id="2" * 32,
    project="3" * 32,
    endpoints=frozenset({"4" * 32}),
    manage=False,
    not_before=NOW,
    expires=Moment(NOW + 15 * MINUTE),
)
SAID: dict[str, Any] = {
    "iss": "falaj",
    "aud": ["endpoint:" + "4" * 32],
    "sub": "1" * 32,
    "jti": "2" * 32,
    "iat": NOW // SECOND,
    "nbf": NOW // SECOND,
    "exp": NOW // SECOND + 900,
    "prj": "3" * 32,
    "manage": False,
}


def check(text: str, now: int = NOW) -> Claims:
    return verify(text, TRUSTED, issuer="falaj", now=Moment(now))


def forged(header: dict[str, Any] | None = None, key: Any = PRIVATE, algorithm: str = "EdDSA", **claims: Any) -> str:
    said = {name: what for name, what in (SAID | claims).items() if what is not ...}
    return jwt.encode(said, key, algorithm=algorithm, headers={"kid": "a" * 32, "typ": TYPE} | (header or {}))


ids = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(
    st.frozensets(ids, max_size=5),
    st.booleans(),
    st.integers(0, 60).map(lambda seconds: seconds * SECOND),
    st.integers(61, 366 * 86_400 - 60).map(lambda seconds: seconds * SECOND),
)
def test_what_was_issued_is_what_is_verified(endpoints: frozenset[str], manage: bool, start: int, end: int) -> None:
    claims = replace(CLAIMS, endpoints=endpoints, manage=manage, not_before=Moment(NOW + start), expires=Moment(NOW + end))
    assert check(issue(SIGNER, claims, issuer="falaj", now=NOW), NOW + start) == claims


def test_a_token_for_the_project_reaches_all_of_it_and_one_for_an_endpoint_that_alone() -> None:
    assert CLAIMS.reaches("4" * 32)
    assert not CLAIMS.reaches("5" * 32)
    assert replace(CLAIMS, endpoints=frozenset()).reaches("5" * 32)


@pytest.mark.parametrize(
    "text",
    [
        forged(aud=[]),
        forged(aud=["project:" + "9" * 32]),
        forged(aud=["project:" + "3" * 32, "endpoint:" + "4" * 32]),
        forged(aud="project:" + "3" * 32),
        forged(aud=["4" * 32]),
        forged(aud=["endpoint:"]),
        forged(aud=["endpoint:" + "4" * 32] * 101),
        forged(aud=...),
        forged(iss="other"),
        forged(sub="nobody"),
        forged(jti=7),
        forged(prj=None),
        forged(prj=...),
        forged(manage=1),
        forged(exp=NOW / SECOND + 900),
        forged(exp=True),
        forged(nbf=...),
        forged(admin=True),
        forged({"typ": "JWT"}),
        forged({"kid": "b" * 32}),
        forged({"jwk": {"kty": "OKP"}}),
        forged({"crit": ["exp"]}),
        forged(key=Ed25519PrivateKey.generate()),
        forged(key=b"x" * 32, algorithm="HS256"),
        forged(key=PRIVATE.public_key().public_bytes_raw(), algorithm="HS256"),
        forged(key=None, algorithm="none"),
        "",
        "a.b.c",
        "." * 7000,
        base64.urlsafe_b64encode(b"[" * 3000).decode() + ".a.b",
        forged() + "A",
        forged(sub="1" * 9000),
    ],
)
def test_anything_else_is_refused_in_the_same_words(text: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        check(text)
    assert str(refused.value).startswith("This token is not valid")


def test_claims_that_were_changed_after_signing_are_refused() -> None:
    head, _, signature = forged().split(".")
    body = base64.urlsafe_b64encode(json.dumps(SAID | {"aud": ["project:" + "3" * 32]}).encode()).decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        check(f"{head}.{body}.{signature}")


def test_a_token_is_good_from_its_start_less_the_skew_until_its_end() -> None:
    text = issue(SIGNER, CLAIMS, issuer="falaj", now=NOW)
    for good in (NOW - SKEW, NOW, CLAIMS.expires - 1):
        assert check(text, good) == CLAIMS
    for bad in (NOW - SKEW - 1, CLAIMS.expires, CLAIMS.expires + DAY):
        with pytest.raises(Unauthenticated):
            check(text, bad)
        with pytest.raises(Unauthenticated):
            check_times(CLAIMS, Moment(bad))


def test_no_token_lives_longer_than_a_year() -> None:
    with pytest.raises(ValueError, match="366 days"):
        issue(SIGNER, replace(CLAIMS, expires=Moment(NOW + LONGEST_LIFE + SECOND)), issuer="falaj", now=NOW)
    with pytest.raises(Unauthenticated):
        check(forged(exp=NOW // SECOND + 400 * 86_400))
