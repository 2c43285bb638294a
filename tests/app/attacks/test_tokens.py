"""Attacks by forgers, and with tokens that are dead or narrower than the call."""

import base64
import json
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from falaj.app.platform import OPERATIONS
from falaj.base.operation import Group, Scope
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    CREATE_USER,
    DISABLE_USER,
    EXCHANGE_TOKEN,
    REVOKE_TOKEN,
    CreateToken,
    CreateUser,
    ExchangeToken,
    OneUser,
    RevokeToken,
)
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from tests.app.running import RunningPlatform
from tests.app.world import BY_NAME, World, check_refusal


def encoded(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


class Forge:
    """Makes passes from a real one, wrong in one respect each."""

    def __init__(self, world: World) -> None:
        self.real: str = world.platform.call(EXCHANGE_TOKEN, ExchangeToken()).token
        self.header: dict[str, Any] = jwt.get_unverified_header(self.real)
        self.claims: dict[str, Any] = jwt.decode(self.real, options={"verify_signature": False})
        self.signature = self.real.rpartition(".")[2]
        with world.platform.http(world.tokens["owner"]) as http:
            keys = http.get("/v1/keys").json()["signing"]
        self.public = bytes.fromhex(next(key["public"] for key in keys if key["id"] == self.header["kid"]))
        self.ledger = next(key for key in keys if key["purpose"] == "ledger")
        self.own = Ed25519PrivateKey.generate()

    def signed(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """With a key of the forger's own."""
        return jwt.encode(self.claims | claims, self.own, algorithm="EdDSA", headers=self.header | (header or {}))

    def unsigned(self, header: dict[str, Any], signature: str = "", **claims: Any) -> str:
        return f"{encoded(self.header | header)}.{encoded(self.claims | claims)}.{signature}"

    def hmac(self, key: bytes, algorithm: str = "HS256") -> str:
        body = f"{encoded(self.header | {'alg': algorithm})}.{encoded(self.claims)}"
        digest = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(body.encode(), key)
        return f"{body}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def jwk(self) -> dict[str, str]:
        raw = self.own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).decode().rstrip("=")}

    def forgeries(self) -> dict[str, str]:
        pem = self.own.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        private = self.own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        now = int(time.time())
        first, second, third = self.real.split(".")
        changed = self.claims | {"scopes": [], "projects": [], "exp": now + 900}
        return {
            **{f"alg-{alg}": self.unsigned({"alg": alg}) for alg in ("none", "None", "NONE", "nOnE", "", "EdDSA", "HS256")},
            "alg-none-with-signature": self.unsigned({"alg": "none"}, self.signature),
            "alg-missing": f"{encoded({'kid': self.header['kid'], 'typ': self.header['typ']})}.{second}.{third}",
            "alg-a-number": self.unsigned({"alg": 1}, self.signature),
            "hs256-with-public-key": self.hmac(self.public),
            "hs256-with-public-key-hex": self.hmac(self.public.hex().encode()),
            "hs256-with-kid": self.hmac(self.header["kid"].encode()),
            "hs256-with-nothing": self.hmac(b""),
            "hs256-called-eddsa": self.hmac(self.public, "EdDSA"),
            "own-key": self.signed(),
            "own-key-unknown-kid": self.signed({"kid": "f" * 32}),
            "kid-path": self.signed({"kid": "../../../../dev/null"}),
            "kid-sql": self.signed({"kid": "' or 1=1 --"}),
            "kid-list": self.unsigned({"kid": [self.header["kid"]]}, self.signature),
            "kid-null": self.unsigned({"kid": None}, self.signature),
            "kid-of-the-ledger": self.signed({"kid": self.ledger["id"]}),
            "no-kid": f"{encoded({'alg': 'EdDSA', 'typ': self.header['typ']})}.{second}.{third}",
            "jwk": self.signed({"jwk": self.jwk()}),
            "jku": self.signed({"jku": "https://evil.example/keys.json"}),
            "x5u": self.signed({"x5u": "https://evil.example/cert.pem"}),
            "x5c": self.signed({"x5c": [pem.decode()]}),
            "crit": self.unsigned({"crit": ["exp"]}, self.signature),
            "crit-own-key": self.signed({"crit": ["b64"], "b64": False}),
            "typ-other": self.unsigned({"typ": "JWT"}, self.signature),
            "zip": self.unsigned({"zip": "DEF"}, self.signature),
            "cty": self.unsigned({"cty": "JWT"}, self.signature),
            "other-audience": self.signed(aud="other"),
            "audiences": self.signed(aud=["falaj", "other"]),
            "other-issuer": self.signed(iss="other"),
            "expired": self.signed(exp=now - 1, nbf=now - 60),
            "not-yet-valid": self.signed(nbf=now + 600, exp=now + 900),
            "long-lived": self.signed(exp=now + 10**9),
            "changed-claims": f"{first}.{encoded(changed)}.{third}",
            "truncated-signature": self.real[:-4],
            "no-signature": f"{first}.{second}.",
            "two-parts": f"{first}.{second}",
            "five-parts": f"{self.real}.a.b",
            "empty-parts": "..",
            "signature-of-another": f"{first}.{second}.{self.signed().rpartition('.')[2]}",
            "not-base64": f"{first}.{second}.!!!!",
            "deep-header": base64.urlsafe_b64encode(b"[" * 3000).decode() + f".{second}.{third}",
            "private-key-as-token": base64.urlsafe_b64encode(private).decode(),
            "claims-a-list": f"{first}.{encoded([1])}.{third}",
            "appended": self.real + "A",
            "spaces": f"{first} .{second}.{third}",
            "prefix": f"falaj_{self.real}",
        }


def test_a_forged_pass_is_refused_by_every_operation(world: World):
    forge = Forge(world)
    forgeries = forge.forgeries()
    assert world.send(world.request(BY_NAME["identity.whoami"]), forge.real).status_code == 200
    before, seen = world.state(), set()
    for name, forged in forgeries.items():
        response = world.send(world.request(BY_NAME["identity.whoami"]), forged)
        check_refusal(response, 401)
        seen.add(response.json()["detail"])
        check_refusal(world.send(world.request(BY_NAME["token.create"]), forged), 401)
        assert response.headers["www-authenticate"] == 'Bearer realm="falaj"', name
    assert len(seen) == 1, "different words tell a forger how far he came"
    guarded = [operation for operation in OPERATIONS if operation.permission.group is not Group.PUBLIC]
    for operation, name in zip(guarded, cycle(("alg-none", "hs256-with-public-key", "jwk", "own-key")), strict=False):
        check_refusal(world.send(world.request(operation), forgeries[name]), 401)
    assert world.state() == before


def test_a_pass_signed_with_the_ledgers_own_key_would_still_not_be_one(world: World):
    """Keys have purposes: the one that signs heads is not trusted for passes."""
    forge = Forge(world)
    check_refusal(world.send(world.request(BY_NAME["identity.whoami"]), forge.signed({"kid": forge.ledger["id"]})), 401)


def test_another_platforms_tokens_and_passes_are_strangers_here(world: World, start_platform: Callable[..., RunningPlatform]):
    other = start_platform()
    foreign = [other.token, other.call(EXCHANGE_TOKEN, ExchangeToken()).token]
    for token in foreign:
        with other.http(token) as http:
            assert http.get("/v1/identity").status_code == 200
        check_refusal(world.send(world.request(BY_NAME["identity.whoami"]), token), 401)


def test_a_revoked_token_and_its_pass_fail_from_the_next_call_on(world: World):
    made = world.platform.call(CREATE_TOKEN, CreateToken(label="short"))
    passed = world.platform.call(EXCHANGE_TOKEN, ExchangeToken(), token=made.token).token
    whoami = BY_NAME["identity.whoami"]
    assert [world.send(world.request(whoami), token).status_code for token in (made.token, passed)] == [200, 200]
    world.platform.call(REVOKE_TOKEN, RevokeToken(token=made.id))
    for token in (made.token, passed):
        check_refusal(world.send(world.request(whoami), token), 401)


def test_a_disabled_persons_tokens_and_codes_are_dead(world: World):
    invited = world.platform.call(CREATE_USER, CreateUser(name="leaver"))
    token = world.platform.call(OPEN_SESSION, OpenSession(code=invited.code)).token
    passed = world.platform.call(EXCHANGE_TOKEN, ExchangeToken(), token=token).token
    link = world.send(world.request(BY_NAME["session.link"]), token).json()["code"]
    world.platform.call(DISABLE_USER, OneUser(user="leaver"))
    for dead in (token, passed):
        check_refusal(world.send(world.request(BY_NAME["identity.whoami"]), dead), 401)
    check_refusal(world.send(world.request(BY_NAME["session.open"], code=link), None), 401)


def test_a_code_opens_one_session(world: World):
    invited = world.platform.call(CREATE_USER, CreateUser(name="once"))
    assert world.send(world.request(BY_NAME["session.open"], code=invited.code), None).status_code == 200
    check_refusal(world.send(world.request(BY_NAME["session.open"], code=invited.code), None), 401)


# What every token may, besides what this one is for: say who and where it is, become narrower, end.
ALWAYS = ("blob.show", "identity.whoami", "project.list", "session.close", "token.exchange")


def test_scopes_narrower_than_the_call_refuse_it(world: World):
    narrow = world.platform.call(CREATE_TOKEN, CreateToken(scopes=("blob.show",))).token
    passed = world.platform.call(EXCHANGE_TOKEN, ExchangeToken(scopes=("blob.show",))).token
    before = world.state()
    for token in (narrow, passed):
        assert world.send(world.request(BY_NAME["blob.show"]), token).status_code == 200
        for operation in OPERATIONS:
            if operation.permission.group is Group.PUBLIC or operation.name in ALWAYS:
                continue
            response = world.send(world.request(operation), token)
            check_refusal(response, 403)
            assert response.json()["rule"] == "token.scope", operation.name
    assert world.state() == before


def test_a_token_for_one_project_reaches_no_other(world: World):
    token = world.platform.call(CREATE_TOKEN, CreateToken(projects=("alpha",))).token
    assert world.send(world.request(BY_NAME["blob.show"]), token).status_code == 200
    before = world.state()
    for operation in OPERATIONS:
        if operation.scope is Scope.PROJECT:
            check_refusal(world.send(world.request(operation, "beta"), token), 404)
        elif operation.permission.group not in (Group.PUBLIC, Group.SELF):
            check_refusal(world.send(world.request(operation), token), 403)
    assert world.state() == before
