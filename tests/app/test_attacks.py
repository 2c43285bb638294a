"""Attacks on a running platform: by strangers, by forgers, and by people who have an account.

Each must get a clear 4xx that tells nothing, change nothing, and (where somebody known was refused) leave a leaf.
"""

import base64
import json
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from falaj.api.openapi import in_body, url_of
from falaj.app.platform import OPERATIONS
from falaj.base.operation import Group, Operation, Scope
from falaj.base.values import Items, Range, Text
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
from tests.app.running import RunningPlatform, read_to_end
from tests.app.world import BY_NAME, LEAKS, World, check_refusal, of_projects

SMALL_BODY = 64 * 1024
SMALL_UPLOAD = 1024 * 1024
SETTINGS = f"""
[limits]
body_bytes = {SMALL_BODY}
body_seconds = 2.0
upload_bytes = {SMALL_UPLOAD}
upload_stall_seconds = 2.0
stranger_calls_per_second = 100000
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    platform = RunningPlatform(tmp_path_factory.mktemp("platform") / "home", settings=SETTINGS)
    try:
        made = World(platform)
        yield made
        made.close()
    finally:
        platform.close()


@pytest.fixture(autouse=True)
def _nothing_fails_inside(world: World) -> Iterator[None]:
    """Whatever is done here, the platform never meets an error that it did not expect."""
    before = world.platform.home.log.read_text().count("Traceback")
    yield
    log = world.platform.home.log.read_text()
    assert log.count("Traceback") == before, log[-4000:]


@pytest.fixture
def unchanged(world: World) -> Iterator[None]:
    """Nothing that the test does may change anything."""
    before = world.state()
    yield
    assert world.state() == before


def test_a_change_does_change_the_state_that_is_compared(world: World):
    before = world.state()
    assert world.state() == before
    world.platform.call(CREATE_TOKEN, CreateToken(label="a change"))
    assert world.state() != before


# Bodies and queries

BODIED = [operation for operation in OPERATIONS if in_body(operation)]
QUERIED = [operation for operation in OPERATIONS if not in_body(operation)]
WRONG = [None, True, -1, 1.5, 10**400, -(10**30), "\x00", "\ud800", "x" * 30_000, [], {}, [[]], {"a": 1}, [None], ["a", 1]]


def ids(operation: Operation[Any, Any]) -> str:
    return operation.name


def sent(world: World, operation: Operation[Any, Any], body: bytes, **headers: str) -> httpx.Response:
    request = world.request(operation)
    request = httpx.Request(
        request.method,
        request.url,
        content=body,
        headers={"content-type": "application/json", "host": request.url.netloc.decode()} | headers,
    )
    return world.send(request, world.tokens["owner"])


def nested(depth: int) -> bytes:
    return b'{"zones":' + b"[" * depth + b"]" * depth + b"}"


MALFORMED = {
    "not-json": b"{",
    "text": b"hello",
    "array": b"[]",
    "number": b"1",
    "null": b"null",
    "nan": b'{"days": NaN}',
    "infinity": b'{"days": -Infinity}',
    "huge-number": b'{"days": ' + b"9" * 5000 + b"}",
    "huge-float": b'{"days": 1e999}',
    "duplicate-keys": b'{"name": "a", "name": "b"}',
    "duplicate-keys-deep": b'{"x": {"name": "a", "name": "b"}}',
    "unknown-field": b'{"is_admin": true}',
    "class-pollution": b'{"__class__": "x", "__init__": {"__globals__": {}}}',
    "not-utf-8": b'{"name": "\xff\xfe"}',
    "utf-16": '{"name": "a"}'.encode("utf-16"),
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "lone-surrogate": b'{"name": "\\ud800"}',
    "nul": b'{"name": "a\\u0000b"}',
    "two-documents": b"{}{}",
    "comment": b"{} // comment",
    **{f"deep-{depth}": nested(depth) for depth in (100, 500, 900, 990, 1000, 2000, 30_000)},
    "deep-objects": b'{"a":' * 9000 + b"1" + b"}" * 9000,
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("malformed", MALFORMED, ids=str)
def test_a_malformed_body_is_refused_by_every_operation(world: World, malformed: str):
    for operation in BODIED:
        check_refusal(sent(world, operation, MALFORMED[malformed]), 400)


@pytest.mark.usefixtures("unchanged")
def test_every_depth_around_the_recursion_limit_is_refused_alike(world: World):
    """Reading and writing JSON recurse differently, so there is a depth at which only one of them gives up."""
    for depth in range(150, 1100, 7):
        check_refusal(sent(world, BY_NAME["project.create"], nested(depth)), 400)
        check_refusal(sent(world, BY_NAME["project.create"], b'{"zones":' * depth + b"1" + b"}" * depth), 400)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("operation", BODIED, ids=ids)
def test_a_field_of_the_wrong_type_is_refused(world: World, operation: Operation[Any, Any]):
    fields = set(operation.request.__dataclass_fields__) - set(operation.path_fields)
    for field in fields:
        for wrong in WRONG:
            if not fits(operation, field, wrong):
                document = body_of(world, operation) | {field: wrong}
                check_refusal(sent(world, operation, json.dumps(document).encode()), 400)


def fits(operation: Operation[Any, Any], field: str, wrong: Any) -> bool:
    """Some of the wrong values are right for some fields: nothing for an optional one, an empty list for names."""
    parts = list(within(get_type_hints(operation.request, include_extras=True)[field]))
    limits = {type(mark): mark for part in parts for mark in getattr(part, "__metadata__", ())}
    if wrong is None or wrong is True:
        return type(wrong) in parts
    if wrong == -1:
        return Range in limits and limits[Range].least <= wrong
    if wrong == []:
        return any(get_origin(part) is tuple for part in parts) and getattr(limits.get(Items), "least", 0) == 0
    return isinstance(wrong, str) and wrong.startswith("x") and Text in limits and limits[Text].longest >= len(wrong)


def within(hint: Any) -> Iterator[Any]:
    """A type and what its alternatives and annotations are made of, items of lists apart."""
    yield hint
    if get_origin(hint) is not tuple:
        for part in get_args(hint):
            yield from within(part)


@pytest.mark.usefixtures("unchanged")
def test_a_body_of_another_kind_is_refused(world: World):
    for operation in BODIED:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", ""):
            check_refusal(sent(world, operation, b'{"a": 1}', **{"content-type": kind}), 415)


QUERIES = {
    "unknown": "is_admin=true",
    "twice": "limit=1&limit=2",
    "not-a-number": "limit=ten",
    "float": "limit=1.0",
    "negative": "limit=-1",
    "zero": "limit=0",
    "huge": "limit=" + "9" * 4000,
    "hexadecimal": "limit=0x10",
    "underscore": "limit=1_0",
    "space": "limit=%201",
    "no-value": "limit",
    "nothing": "&&&",
    "bad-encoding": "limit=%zz",
    "not-utf-8": "cursor=%ff%fe",
    "nul": "cursor=%00",
    "forged-cursor": "cursor=" + base64.urlsafe_b64encode(b'["a", {"b": 1}]').decode(),
    "number-in-cursor": "cursor=" + base64.urlsafe_b64encode(b"[1e999]").decode(),
    "deep-cursor": "cursor=" + base64.urlsafe_b64encode(b"[" * 300).decode(),
    "nul-in-cursor": "cursor=" + base64.urlsafe_b64encode(b'["\\u0000"]').decode(),
    "surrogate-in-cursor": "cursor=" + base64.urlsafe_b64encode(b'["\\ud800"]').decode(),
    "huge-number-in-cursor": "cursor=" + base64.urlsafe_b64encode(b'[99999999999999999999, "a"]').decode(),
    "many": "&".join(f"a{number}=1" for number in range(2000)),
    "path-field-again": "project=beta",
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_malformed_query_is_refused_by_every_operation(world: World, query: str):
    for operation in QUERIED:
        if (
            query == "path-field-again"
            and "project" not in operation.path_fields
            and "project" in operation.request.__dataclass_fields__
        ):
            continue  # there the field belongs into the query
        given = world.request(operation)
        joiner = "&" if given.url.query else "?"
        url = f"{given.url}{joiner}{QUERIES[query]}"
        raw = url.removeprefix(world.platform.url).encode()
        answer = raw_request(world, operation.method, raw, token=world.tokens["owner"])
        # A cursor is read by the listing itself: operations without one refuse the unknown field.
        assert answer.status == 400, f"{operation.method} {url[:200]} -> {answer.text[:300]}"
        answer.check()


# Paths


class Raw:
    """An answer as it came over the socket."""

    def __init__(self, received: bytes) -> None:
        self.received = received
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0] else 0
        self.headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        self.body = body
        self.text = body.decode(errors="replace")

    def check(self) -> None:
        told = self.received[:600].decode(errors="replace")
        assert 400 <= self.status < 500, told
        assert not LEAKS.search(self.text), told


def raw_request(world: World, method: str, target: bytes, *, token: str | None, headers: bytes = b"", body: bytes = b"") -> Raw:
    """One request with this very target: no client in between that would tidy it up."""
    authorization = b"authorization: Bearer " + token.encode() + b"\r\n" if token else b""
    host = (
        b"" if re.search(rb"^host:", headers.lower(), re.MULTILINE) else f"host: 127.0.0.1:{world.platform.port}\r\n".encode()
    )
    content = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body) if body else b""
    head = (
        method.encode()
        + b" "
        + target
        + b" HTTP/1.1\r\n"
        + host
        + authorization
        + headers
        + content
        + b"connection: close\r\n\r\n"
    )
    return Raw(world.platform.raw(head + body))


TRICKS = {
    "dots": b"..",
    "dot": b".",
    "dots-and-more": b"../../v1/platform",
    "encoded-dots": b"%2e%2e",
    "half-encoded-dots": b".%2e",
    "doubly-encoded-dots": b"%252e%252e",
    "encoded-slash": b"alpha%2fblobs",
    "doubly-encoded-slash": b"..%252f..%252fetc",
    "overlong-utf-8": b"%c0%ae%c0%ae",
    "fullwidth": b"%ef%bc%8e%ef%bc%8e",
    "absolute": b"/etc/passwd",
    "encoded-absolute": b"%2fetc%2fpasswd",
    "windows": b"..\\..\\windows",
    "encoded-backslash": b"..%5c..%5c",
    "drive": b"c:",
    "nul": b"alpha%00",
    "nul-and-more": b"alpha%00.json",
    "newline": b"alpha%0d%0aset-cookie:%20a=b",
    "semicolon": b"alpha;id=1",
    "encoded-hash": b"alpha%23",
    "hash": b"alpha#",
    "encoded-question": b"alpha%3f",
    "question": b"alpha?a=1",
    "empty": b"",
    "space": b"%20alpha",
    "plus": b"alpha+",
    "tilde": b"~root",
    "star": b"*",
    "quote": b"'%20or%201=1--",
    "template": b"{{7*7}}",
    "format": b"{project}",
    "upper-case": b"ALPHA",
    "encoded-letter": b"%61lpha",
    "not-utf-8": b"%ff%fe",
    "bad-encoding": b"%zz",
    "long": b"a" * 5000,
    "very-long": b"a" * 40_000,
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("trick", TRICKS, ids=str)
def test_a_path_trick_leads_nowhere_in_any_operation(world: World, trick: str):
    """In every field of every path, and by somebody who may do everything, so that nothing else refuses it first."""
    samples = world.things["alpha"] | {"user": "nora", "member": "nora", "purpose": "ledger", "name": "console.css"}
    for operation in OPERATIONS:
        for field in operation.path_fields:
            texts = {name: str(samples[name]).encode() for name in operation.path_fields} | {field: TRICKS[trick]}
            target = url_of(operation).encode()
            for name, text in texts.items():
                target = target.replace(b"{%s}" % name.encode(), text)
            body = json.dumps(body_of(world, operation)).encode() if in_body(operation) else b""
            answer = raw_request(world, operation.method, target, token=world.tokens["owner"], body=body)
            answer.check()


def body_of(world: World, operation: Operation[Any, Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(world.request(operation).content)
    return document


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "target",
    [
        b"//v1/projects",
        b"/v1//projects",
        b"/v1/projects/",
        b"/V1/projects",
        b"/./v1/projects",
        b"/x/../v1/projects",
        b"/v1/projects;x",
        b"/v1/projects%2f",
        b"/v1%2fprojects",
        b"\\v1\\projects",
        b"v1/projects",
        b"*",
        b"http://127.0.0.1/v1/projects",
        b"http://evil.example/v1/projects",
        b"https://evil.example:443/v1/projects",
        b"//evil.example/v1/projects",
        b"/v1/projects#a",
        b"/v1/projects\x00",
        b"/v1/projects\xff",
        b"evil.example:443",
    ],
)
def test_only_the_plain_form_of_an_address_is_served(world: World, target: bytes):
    for method in ("GET", "POST", "DELETE", "OPTIONS", "CONNECT"):
        raw_request(world, method, target, token=world.tokens["owner"]).check()


def test_the_plain_form_is_served_over_the_same_socket(world: World):
    assert raw_request(world, "GET", b"/v1/projects", token=world.tokens["owner"]).status == 200


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("method", ["HEAD", "PATCH", "TRACE", "TRACK", "PROPFIND", "get", "QUERY"])
def test_a_method_that_nobody_declared_is_refused(world: World, method: str):
    for operation in OPERATIONS:
        target = url_of(operation).replace("{", "").replace("}", "").encode()
        answer = raw_request(world, method, target, token=world.tokens["owner"])
        if method == "HEAD" and (operation.method == "GET" or answer.status == 200):
            continue  # HTTP gives every GET its HEAD; Starlette answers it
        answer.check()


# Headers


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "headers",
    [
        b"host: evil.example\r\n",
        b"host: 127.0.0.1.evil.example\r\n",
        b"host: evil.example@127.0.0.1\r\n",
        b"host: 127.0.0.1@evil.example\r\n",
        b"host: 127.0.0.1:x\r\n",
        b"host: 127.0.0.1/evil.example\r\n",
        b"host: 127.0.0.1#evil.example\r\n",
        b"host: \r\n",
        b"host: 127.0.0.1\r\nhost: evil.example\r\n",
        b"host: 127.0.0.1, evil.example\r\n",
        b"x-no-host: 1\r\nhost:\r\n",
        b"host: 0.0.0.0\r\n",
        b"host: 2130706433\r\n",
        b"host: 127.0.0.1\r\norigin: http://evil.example\r\n",
        b"host: 127.0.0.1\r\norigin: null\r\n",
        b"host: 127.0.0.1\r\norigin: http://127.0.0.1.evil.example\r\n",
        b"host: 127.0.0.1\r\norigin: http://127.0.0.1@evil.example\r\n",
        b"host: 127.0.0.1\r\norigin: http://127.0.0.1\r\norigin: http://evil.example\r\n",
        b"host: 127.0.0.1\r\norigin: file://\r\n",
        b"host: evil.example\r\nx-forwarded-host: 127.0.0.1\r\n",
        b"host: evil.example\r\nforwarded: host=127.0.0.1\r\n",
    ],
)
def test_a_forged_host_or_origin_is_refused_before_anything_else(world: World, headers: bytes):
    for method, target in (("GET", b"/v1/projects"), ("POST", b"/v1/tokens"), ("GET", b"/healthz"), ("GET", b"/sign-in")):
        answer = raw_request(world, method, target, token=world.tokens["owner"], headers=headers)
        assert answer.status in (400, 403)
        answer.check()
        assert b"evil" not in answer.received


def test_without_a_host_there_is_no_answer_but_400(world: World):
    for version in (b"1.0", b"1.1"):
        answer = Raw(world.platform.raw(b"GET /healthz HTTP/" + version + b"\r\nconnection: close\r\n\r\n"))
        assert answer.status == 400


def test_forwarded_headers_count_for_nothing(world: World):
    """No proxy is configured, so nobody may speak in another's name: not of the address, the scheme or the host."""
    forged = (
        b"x-forwarded-host: evil.example\r\nx-forwarded-proto: https\r\nx-forwarded-for: 10.0.0.1\r\n"
        b"forwarded: for=10.0.0.1;host=evil.example;proto=https\r\nx-original-url: /v1/keys\r\nx-rewrite-url: /v1/keys\r\n"
        b"x-http-method-override: DELETE\r\nx-real-ip: 10.0.0.1\r\n"
    )
    for target in (b"/", b"/sign-in", b"/v1/identity"):
        answer = raw_request(world, "GET", target, token=world.tokens["nora"], headers=forged)
        assert answer.status in (200, 303)
        assert b"evil.example" not in answer.received
        assert b"https://" not in answer.received.partition(b"\r\n\r\n")[0]
        assert b"; Secure" not in answer.received


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic b3duZXI6",
        "Token x",
        "Bearer a b",
        "Bearer " + "x" * 20_000,
        "Bearer \xe9",
        "Bearer falaj_",
        "bearer null",
    ],
)
def test_an_odd_authorization_header_is_refused(world: World, value: str):
    for operation in OPERATIONS:
        if operation.permission.group is Group.PUBLIC:
            continue
        target = str(world.request(operation).url).removeprefix(world.platform.url).encode()
        headers = b"authorization: " + value.encode("latin-1") + b"\r\n"
        answer = raw_request(world, operation.method, target, token=None, headers=headers)
        answer.check()
        assert answer.status in (400, 401)  # 400 where a required body is missing too


def test_two_tokens_in_one_request_are_none(world: World):
    headers = f"authorization: Bearer {world.tokens['nora']}\r\n".encode()
    assert raw_request(world, "GET", b"/v1/identity", token=world.tokens["owner"], headers=headers).status == 401


def test_a_cookie_is_no_token_for_the_interface(world: World):
    """Or any page of the browser could ride on it."""
    with world.platform.http() as http:
        http.cookies.set("falaj-session", world.tokens["owner"])
        check_refusal(http.get("/v1/identity"), 401)
        check_refusal(http.post("/v1/tokens", json={}), 401)


# Tokens


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
    assert world.send(world.request(BY_NAME["identity.whoami"]), forge.real).status_code == 200
    before, seen = world.state(), set()
    for name, forged in forge.forgeries().items():
        response = world.send(world.request(BY_NAME["identity.whoami"]), forged)
        check_refusal(response, 401)
        seen.add(response.json()["detail"])
        check_refusal(world.send(world.request(BY_NAME["token.create"]), forged), 401)
        assert response.headers["www-authenticate"] == 'Bearer realm="falaj"', name
    assert len(seen) == 1, "different words tell a forger how far he came"
    for operation in OPERATIONS:
        if operation.permission.group is not Group.PUBLIC:
            for name in ("alg-none", "hs256-with-public-key", "jwk", "own-key"):
                check_refusal(world.send(world.request(operation), forge.forgeries()[name]), 401)
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


# Insiders

FOR_ANYBODY = (Group.PUBLIC, Group.SELF)


def seen(response: httpx.Response, name: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """An answer without what tells one request from another: its id and the name that was asked for."""
    headers = {key: text for key, text in response.headers.items() if key not in ("x-request-id", "date")}
    document = json.loads(response.text.replace(name, "NAME"))
    document.pop("instance")
    return response.status_code, headers, document


@pytest.mark.parametrize("who", ["nora", "sam", "alice", "adam"])
@pytest.mark.parametrize("name", of_projects())
def test_what_is_not_yours_looks_like_what_does_not_exist(world: World, who: str, name: str):
    hidden = world.send(world.request(BY_NAME[name], "beta"), world.tokens[who])
    absent = world.send(world.request(BY_NAME[name], "zeta"), world.tokens[who])
    check_refusal(hidden, 404)
    assert seen(hidden, "beta") == seen(absent, "zeta")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", of_projects())
def test_members_of_one_project_get_nothing_of_another_by_its_name_and_leave_a_leaf(world: World, name: str):
    operation = BY_NAME[name]
    for who in ("alice", "sam"):
        before = {leaf["id"] for leaf in world.refusals(world.ids[who])}
        response = world.send(world.request(operation, "beta"), world.tokens[who])
        check_refusal(response, 404)
        left = [leaf for leaf in world.refusals(world.ids[who]) if leaf["id"] not in before]
        assert [(leaf["operation"], leaf["rule"], leaf["request_id"]) for leaf in left] == [
            (name, "not-visible", response.headers["x-request-id"])
        ]


MAKE_WHAT_THEY_NAME = ("policy.put", "group.map", "run.import")  # in the caller's own project
NARROWED_LISTINGS = ("owner.list", "review.list")  # of the caller's own project: nothing of another's is ever among them


@pytest.mark.usefixtures("unchanged")
def test_members_of_one_project_get_nothing_of_another_by_its_ids(world: World):
    """Their own project's name in the path, the other's things behind it."""
    beta = world.things["beta"]
    named = (
        "blob",
        "service",
        "token",
        "policy",
        "group",
        "leaf",
        "run",
        "holder",
        "upload",
        "approval",
        "comment",
        "review",
        "link",
    )
    ids = {name: beta[name] for name in named} | {"member": beta["service"], "thing": beta["run"]}
    tried = 0
    for operation in OPERATIONS:
        if operation.scope is not Scope.PROJECT:
            continue
        for field in set(operation.request.__dataclass_fields__) & set(ids):
            if operation.name in MAKE_WHAT_THEY_NAME + NARROWED_LISTINGS or operation.permission.group is Group.APPROVE:
                continue  # and approving is not an admin's
            beside = {"source": "s3://elsewhere"} if (operation.name, field) == ("version.create", "run") else {}
            check_refusal(world.send(world.request(operation, **{field: ids[field]}, **beside), world.tokens["alice"]), 404)
            tried += 1
    for member in (beta["service_id"], beta["id"]):
        check_refusal(world.send(world.request(BY_NAME["member.add"], member=member), world.tokens["alice"]), 404)
    check_refusal(world.send(world.request(BY_NAME["token.revoke"], token=beta["token"]), world.tokens["alice"]), 404)
    check_refusal(world.send(world.request(BY_NAME["token.revoke"], token=beta["own_token"]), world.tokens["alice"]), 404)
    assert tried >= 40
    # By its owner each of them is found, so it was not the ids that were wrong.
    assert world.send(world.request(BY_NAME["blob.show"], "beta"), world.tokens["bob"]).status_code == 200
    assert (
        world.send(world.request(BY_NAME["service.tokens"], "beta"), world.tokens["bob"]).json()["items"][0]["id"]
        == beta["token"]
    )


def test_a_project_s_log_holds_nothing_of_another(world: World):
    for who, own in (("alice", "alpha"), ("adam", "alpha"), ("bob", "beta")):
        answer = world.send(world.request(BY_NAME["audit.log-project"], own, limit=1000), world.tokens[who])
        projects = {entry["project"] for entry in answer.json()["items"]}
        assert projects == {world.things[own]["id"]}


def test_listings_show_only_ones_own(world: World):
    for who, visible in {"nora": set(), "sam": {"alpha"}, "bob": {"beta"}}.items():
        listed = world.send(world.request(BY_NAME["project.list"]), world.tokens[who]).json()["items"]
        assert {project["name"] for project in listed} == visible
        answer = world.send(world.request(BY_NAME["project.list"], archived="true"), world.tokens[who])
        assert {project["name"] for project in answer.json()["items"]} <= visible


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.permission.group not in FOR_ANYBODY], ids=ids)
def test_a_viewer_writes_nothing(world: World, operation: Operation[Any, Any]):
    if operation.scope is Scope.PROJECT and operation.permission.group is Group.READ:
        assert world.send(world.request(operation), world.tokens["vera"]).status_code == 200
        return
    before = {leaf["id"] for leaf in world.refusals(world.ids["vera"])}
    check_refusal(world.send(world.request(operation), world.tokens["vera"]), 403)
    left = [leaf for leaf in world.refusals(world.ids["vera"]) if leaf["id"] not in before]
    assert [leaf["operation"] for leaf in left] == [operation.name]
    assert left[0]["rule"]


# Climbing


LIFTS = "permit (principal, action, resource) when { context.zone_required == false };"


def climbing(world: World) -> dict[str, tuple[str, httpx.Request, tuple[int, ...]]]:
    """Who tries what, and what he may be told."""

    def ask(operation: str, about: str = "alpha", **given: Any) -> httpx.Request:
        return world.request(BY_NAME[operation], about, **given)

    beta = world.things["beta"]
    return {
        "a scientist makes himself admin": ("sam", ask("member.add", member="sam", role="admin"), (403,)),
        "an outsider joins": ("nora", ask("member.add", member="nora", role="viewer"), (404,)),
        "a project admin becomes platform admin": ("alice", ask("platform.add-member", member="alice", role="admin"), (403,)),
        "an auditor becomes platform auditor": ("adam", ask("platform.add-member", member="adam", role="auditor"), (403,)),
        "a project admin maps a group to the platform": ("alice", ask("platform.map-group", group="g", role="admin"), (403,)),
        "a project admin maps a group in another project": ("alice", ask("group.map", "beta", group="g", role="admin"), (404,)),
        "a project admin names the platform as a project": (
            "alice",
            ask("group.map", "platform", group="g", role="admin"),
            (404,),
        ),
        "a project admin adds another's service": ("alice", ask("member.add", member=beta["service_id"], role="admin"), (404,)),
        "a project admin creates a project": ("alice", ask("project.create", name="mine"), (403,)),
        "a project admin lists another zone": ("alice", ask("platform.put-policy", text=LIFTS, policy="lift"), (403,)),
        "a project admin invites the owner": ("alice", ask("user.invite", user="owner"), (403,)),
        "a project admin disables the owner": ("alice", ask("user.disable", user="owner"), (403,)),
        "a project admin erases the owner": ("alice", ask("user.erase", user="owner"), (403,)),
        "a project admin creates a user": ("alice", ask("user.create", name="puppet"), (403,)),
        "the owner cannot be invited while he has tokens": ("owner", ask("user.invite", user="owner"), (409,)),
        "nor disabled as the last admin": ("owner", ask("user.disable", user="owner"), (409,)),
        "nor erased": ("owner", ask("user.erase", user="owner"), (409,)),
        "nor stripped of the role": ("owner", ask("platform.remove-member", member="owner", role="admin"), (409,)),
        "a project admin exports the ledger": ("alice", ask("audit.export"), (403,)),
        "a project auditor exports the ledger": ("adam", ask("audit.export"), (403,)),
        "a project auditor follows the ledger": ("adam", ask("audit.follow"), (403,)),
        "a project auditor reads the platform's log": ("adam", ask("audit.log"), (403,)),
        "a project auditor proves a leaf of another": ("adam", ask("audit.prove", leaf=beta["leaf"]), (403,)),
        "a project auditor reads another's log": ("adam", ask("audit.log-project", "beta"), (404,)),
        "a project admin erases salts": ("alice", ask("audit.erase-salts", leaf=beta["leaf"]), (403,)),
        "a project admin backs the platform up": ("alice", ask("backup.create"), (403,)),
        "a project admin rotates the platform's key": ("alice", ask("key.rotate-signing"), (403,)),
        "a project admin moves a zone": ("alice", ask("zone.update", zone="home", storage="local"), (403,)),
        "a scientist shreds a blob": ("sam", ask("blob.shred"), (403,)),
        "a scientist drops another's blob": ("sam", ask("blob.delete"), (409,)),
        "a scientist explains another's standing": ("sam", ask("policy.explain", principal="alice", project="alpha"), (403,)),
        "a scientist explains another project": ("sam", ask("policy.explain", project="beta"), (404,)),
        "a project admin explains somebody on the platform": ("alice", ask("policy.explain", principal="owner"), (403,)),
        "a token for a project one does not see": ("sam", ask("token.create", projects=["beta"]), (404,)),
        "a pass for a project one does not see": ("sam", ask("token.exchange", projects=["beta"]), (404,)),
    }


@pytest.mark.usefixtures("unchanged")
def test_nobody_climbs(world: World):
    for what, (who, request, statuses) in climbing(world).items():
        response = world.send(request, world.tokens[who])
        assert response.status_code in statuses, f"{what}: {response.status_code} {response.text}"
        check_refusal(response, *statuses)


def test_a_policy_never_lifts_a_forbid(world: World):
    """Alice permits everything to everybody in her project; the zone, the archive and the token's bounds hold all the same."""
    put = world.request(BY_NAME["policy.put"], policy="everything", text="permit (principal, action, resource);")
    assert world.send(put, world.tokens["alice"]).status_code == 200
    try:
        abroad = world.platform.call(CREATE_TOKEN, CreateToken(zone="berlin")).token
        refused = world.send(world.request(BY_NAME["blob.get"]), abroad)
        check_refusal(refused, 403)
        assert refused.json()["rule"] == "residency.caller-zone"
        elsewhere = world.send(world.request(BY_NAME["blob.put"], zone="berlin"), world.tokens["alice"])
        check_refusal(elsewhere, 403)
        assert elsewhere.json()["rule"] == "residency.target-zone"
        # And it reaches no further than her project.
        check_refusal(world.send(world.request(BY_NAME["blob.get"], "beta"), world.tokens["alice"]), 404)
        check_refusal(world.send(world.request(BY_NAME["audit.export"]), world.tokens["alice"]), 403)
        narrow = world.platform.call(CREATE_TOKEN, CreateToken(scopes=("blob.list",)), token=world.tokens["alice"]).token
        check_refusal(world.send(world.request(BY_NAME["blob.get"]), narrow), 403)
    finally:
        remove = world.request(BY_NAME["policy.delete"], policy="everything")
        assert world.send(remove, world.tokens["alice"]).status_code == 200


def test_a_token_makes_nothing_wider_than_itself(world: World):
    call = world.platform.call
    narrow = call(
        CREATE_TOKEN, CreateToken(scopes=("blob.show", "token.own", "token.exchange"), projects=("alpha",), zone="home", days=1)
    )
    wider: list[tuple[Operation[Any, Any], dict[str, Any]]] = [
        (CREATE_TOKEN, {"scopes": ["blob.get"]}),
        (CREATE_TOKEN, {"scopes": ["read"]}),
        (CREATE_TOKEN, {"projects": ["beta"]}),
        (CREATE_TOKEN, {"zone": "berlin"}),
        (CREATE_TOKEN, {"days": 30}),
        (EXCHANGE_TOKEN, {"scopes": ["administer"]}),
        (EXCHANGE_TOKEN, {"projects": ["alpha", "beta"]}),
        (EXCHANGE_TOKEN, {"zone": "berlin"}),
    ]
    before = world.state()
    for operation, fields in wider:
        check_refusal(world.send(world.plain_request(operation, fields), narrow.token), 403)
    assert world.state() == before
    child = call(CREATE_TOKEN, CreateToken(), token=narrow.token)
    listed = {
        token["id"]: token for token in world.send(world.request(BY_NAME["token.list"]), world.tokens["owner"]).json()["items"]
    }
    kept = {name: listed[child.id][name] for name in ("scopes", "projects", "zone")}
    assert kept == {"scopes": ["blob.show", "token.exchange", "token.own"], "projects": ["alpha"], "zone": "home"}
    assert listed[child.id]["expires"] <= listed[narrow.id]["expires"]
    passed = call(EXCHANGE_TOKEN, ExchangeToken(), token=narrow.token).token
    for operation in (CREATE_TOKEN, EXCHANGE_TOKEN, BY_NAME["session.link"]):
        check_refusal(world.send(world.plain_request(operation, {}), passed), 403)


def test_what_a_handler_forbids_leaves_a_leaf_too(world: World):
    before = {leaf["id"] for leaf in world.refusals(world.ids["sam"])}
    token = world.platform.call(CREATE_TOKEN, CreateToken(days=1), token=world.tokens["sam"]).token
    check_refusal(world.send(world.plain_request(CREATE_TOKEN, {"days": 365}), token), 403)
    left = [leaf for leaf in world.refusals(world.ids["sam"]) if leaf["id"] not in before]
    assert [(leaf["operation"], leaf["rule"]) for leaf in left] == [("token.create", "token.life")]


def test_metrics_need_a_token_with_that_power(world: World):
    metrics = BY_NAME["platform.metrics"]
    check_refusal(world.send(world.request(metrics), None), 401)
    for who in ("nora", "sam", "alice", "adam"):
        check_refusal(world.send(world.request(metrics), world.tokens[who]), 403)
    answer = world.send(world.request(metrics), world.tokens["owner"])
    assert answer.status_code == 200
    assert "falaj_calls_total" in answer.text
    assert not any(secret in answer.text for secret in ("alpha", "beta", "nora", *world.ids.values()))


def test_names_of_users_are_not_for_everybody(world: World):
    for who in ("nora", "sam", "alice"):
        check_refusal(world.send(world.request(BY_NAME["user.list"]), world.tokens[who]), 403)
        check_refusal(world.send(world.request(BY_NAME["user.show"], user="no-such"), world.tokens[who]), 403)


# Too much, and too slow


def test_what_is_too_large_is_refused(world: World):
    head = f"host: 127.0.0.1:{world.platform.port}\r\nauthorization: Bearer {world.tokens['owner']}\r\n".encode()
    before = world.state()
    body = b'{"label": "' + b"x" * SMALL_BODY + b'"}'
    assert raw_request(world, "POST", b"/v1/tokens", token=world.tokens["owner"], body=body).status == 413
    blob = httpx.Request("POST", f"{world.platform.url}/v1/projects/alpha/blobs", content=b"x" * (SMALL_UPLOAD + 1))
    check_refusal(world.send(blob, world.tokens["owner"]), 413)
    for large in (b"x-large: " + b"a" * 40_000 + b"\r\n", b"".join(b"x-%d: a\r\n" % number for number in range(5000))):
        answer = Raw(world.platform.raw(b"GET /v1/identity HTTP/1.1\r\n" + head + large + b"\r\n"))
        assert answer.status == 431
    assert Raw(world.platform.raw(b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + head + b"\r\n")).status == 431
    assert world.state() == before
    # A body that is announced too large, and never sent, costs nobody anything.
    announced = (
        b"POST /v1/tokens HTTP/1.1\r\n" + head + b"content-type: application/json\r\ncontent-length: 99999999999\r\n\r\n"
    )
    with world.platform.connect() as connection:
        connection.sendall(announced + b"{")
        started = time.monotonic()
        assert Raw(connection.recv(65536)).status in (400, 413)
        assert time.monotonic() - started < 10


class Slow(threading.Thread):
    """A client that sends its bytes one at a time; what it was told, and after how long."""

    def __init__(self, world: World, first: bytes, then: bytes, pause: float) -> None:
        super().__init__(daemon=True)
        self._connection = world.platform.connect(timeout=60)
        self._first, self._then, self._pause = first, then, pause
        self.answer, self.seconds = b"", 0.0
        self.start()

    def run(self) -> None:
        started = time.monotonic()
        reader = threading.Thread(target=self._read, args=(started,), daemon=True)
        reader.start()
        try:
            self._connection.sendall(self._first)
            for byte in self._then:
                if not reader.is_alive():
                    break
                time.sleep(self._pause)
                self._connection.sendall(bytes([byte]))
        except OSError:
            pass
        reader.join(60)
        self._connection.close()

    def _read(self, started: float) -> None:
        try:
            self.answer = self._connection.recv(65536)
        except OSError:
            self.answer = b""
        self.seconds = time.monotonic() - started


def test_slow_clients_are_let_go_and_others_are_served_meanwhile(world: World):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    head = f"host: 127.0.0.1:{world.platform.port}\r\nauthorization: Bearer {world.tokens['owner']}\r\n".encode()
    before = world.state()
    idle: list[socket.socket] = []
    try:
        idle += [world.platform.connect() for _ in range(1000)]
        json_head = b"POST /v1/tokens HTTP/1.1\r\n" + head + b"content-type: application/json\r\ncontent-length: 500\r\n\r\n"
        upload = b"POST /v1/projects/alpha/blobs HTTP/1.1\r\n" + head + b"content-length: 500\r\n\r\n"
        chunked = b"POST /v1/projects/alpha/blobs HTTP/1.1\r\n" + head + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
        slow = {
            "head": Slow(world, b"GET /v1/identity HTTP/1.1\r\n", b"x-slow: " + b"a" * 200, 0.2),
            "body": Slow(world, json_head, b'{"label": "' + b"a" * 200, 0.2),
            "upload": Slow(world, upload + b"some", b"", 0),
            "chunked": Slow(world, chunked, b"", 0),
        }
        with world.platform.http(world.tokens["owner"]) as http:
            slowest = 0.0
            for _ in range(100):
                started = time.monotonic()
                assert http.get("/v1/identity").status_code == 200
                slowest = max(slowest, time.monotonic() - started)
        assert slowest < 2, "others wait for slow clients"
        with ThreadPoolExecutor(20) as pool:
            fresh = list(
                pool.map(
                    lambda _: world.send(world.request(BY_NAME["identity.whoami"]), world.tokens["sam"]).status_code, range(40)
                )
            )
        assert fresh == [200] * 40
        for thread in slow.values():
            thread.join(60)
        told = {name: (Raw(thread.answer).status if thread.answer else 0, thread.seconds) for name, thread in slow.items()}
        assert {name: status for name, (status, _) in told.items()} == {"head": 408, "body": 400, "upload": 400, "chunked": 400}
        assert {name for name, (_, seconds) in told.items() if seconds > (15 if name == "head" else 8)} == set(), told
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert world.state() == before


def test_an_idle_connection_is_closed_in_time(world: World):
    with world.platform.connect(timeout=30) as connection:
        started = time.monotonic()
        read_to_end(connection)
        assert 5 < time.monotonic() - started < 20


def test_a_low_limit_of_open_files_does_not_limit_connections(start_platform: Callable[..., RunningPlatform]):
    """Many systems start a process with room for 1,024 files; each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        platform = start_platform()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    idle = [platform.connect() for _ in range(400)]
    with platform.http() as http:
        assert http.get("/readyz").status_code == 200
    for connection in idle:
        connection.close()


SMUGGLED = (
    b"POST /v1/tokens HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %s\r\n"
    b'content-type: application/json\r\ncontent-length: 21\r\n\r\n{"label": "smuggled"}'
)


def smuggling(first: bytes) -> dict[str, bytes]:
    """Pairs of requests whose border two parsers could see in different places. `first` is the head of the outer one."""
    inner_chunk = b"0\r\n\r\n"

    def post(*headers: bytes, body: bytes = b"") -> bytes:
        return first + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body

    return {
        "cl-te": post(b"content-length: 5", b"transfer-encoding: chunked", body=inner_chunk),
        "te-cl": post(b"transfer-encoding: chunked", b"content-length: 500", body=inner_chunk),
        "two-lengths": post(b"content-length: 0", b"content-length: 500"),
        "two-lengths-in-one": post(b"content-length: 0, 500"),
        "plus-length": post(b"content-length: +0"),
        "negative-length": post(b"content-length: -1"),
        "hex-length": post(b"content-length: 0x0"),
        "length-space": post(b"content-length : 0"),
        "te-space": post(b"transfer-encoding : chunked", body=inner_chunk),
        "te-unknown": post(b"transfer-encoding: xchunked", body=inner_chunk),
        "te-identity": post(b"transfer-encoding: identity", b"content-length: 0"),
        "te-twice": post(b"transfer-encoding: chunked", b"transfer-encoding: identity", body=inner_chunk),
        "te-tab": post(b"transfer-encoding:\tchunked", b"content-length: 0", body=inner_chunk),
        "te-fold": post(b"transfer-encoding:\r\n chunked", b"content-length: 0", body=inner_chunk),
        "te-quote": post(b'transfer-encoding: "chunked"', body=inner_chunk),
        "te-nul": post(b"transfer-encoding: chun\x00ked", body=inner_chunk),
        "bare-lf": first.replace(b"\r\n", b"\n") + b"content-length: 0\n\n",
        "bare-cr": post(b"x: a\rcontent-length: 0"),
        "chunk-huge": post(b"transfer-encoding: chunked", body=b"FFFFFFFFFFFFFFFFF\r\n"),
        "chunk-negative": post(b"transfer-encoding: chunked", body=b"-1\r\n"),
        "chunk-lf": post(b"transfer-encoding: chunked", body=b"0\n\n"),
        "chunk-short": post(b"transfer-encoding: chunked", body=b"1\r\naa\r\n0\r\n\r\n"),
        "header-nul": post(b"x: a\x00b", b"content-length: 0"),
        "header-space": post(b"x y: a", b"content-length: 0"),
        "no-colon": post(b"xyz", b"content-length: 0"),
        "http-2": first.replace(b"HTTP/1.1", b"HTTP/2.0") + b"content-length: 0\r\n\r\n",
        "http-0.9": b"GET /healthz\r\n",
    }


def tokens_called(world: World, label: str) -> int:
    listed = world.send(world.request(BY_NAME["token.list"], limit=1000), world.tokens["owner"]).json()["items"]
    return sum(token["label"] == label for token in listed)


def test_a_request_hidden_behind_an_ambiguous_border_is_not_run(world: World):
    owner = world.tokens["owner"].encode()
    first = b"POST /v1/sessions/oidc/start HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    for name, outer in smuggling(first).items():
        with world.platform.connect(timeout=20) as connection:
            connection.sendall(outer + SMUGGLED % owner)
            received = connection.recv(65536)
            assert received.startswith(b"HTTP/1.1 400"), f"{name}: {received[:300]!r}"
            assert received.count(b"HTTP/1.1 ") == 1, name
            assert read_to_end(connection) == b"", f"{name}: the connection stays open"
        assert tokens_called(world, "smuggled") == 0, name


def test_plain_pipelining_is_no_smuggling(world: World):
    """The same inner request, properly behind a complete first one, is run: so the test above could have failed."""
    first = b"POST /v1/sessions/oidc/start HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n"
    with world.platform.connect(timeout=20) as connection:
        connection.sendall(first + (SMUGGLED % world.tokens["owner"].encode()).replace(b"smuggled", b"pipeline"))
        connection.settimeout(5)
        deadline = time.monotonic() + 10
        while tokens_called(world, "pipeline") == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert tokens_called(world, "pipeline") == 1


def test_an_upgrade_is_not_taken(world: World):
    headers = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n"
    target = f"GET /v1/identity HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {world.tokens['nora']}\r\n".encode()
    with world.platform.connect(timeout=10) as connection:
        connection.sendall(target + headers + b"\r\n")
        answer = Raw(connection.recv(65536))
        assert answer.status != 101


# Asking too often


def test_who_asks_too_often_is_told_to_wait_while_others_are_served(start_platform: Callable[..., RunningPlatform]):
    platform = start_platform(settings="[limits]\ncalls_per_second = 20\nstranger_calls_per_second = 10\n")
    other = platform.person("other")
    with platform.http(platform.token) as greedy, platform.http(other) as modest, platform.http() as stranger:
        answers = [greedy.get("/v1/identity") for _ in range(120)]
        limited = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert len(limited) > 20
        for answer in limited:
            check_refusal(answer, 429)
            assert int(answer.headers["retry-after"]) >= 1
        assert modest.get("/v1/identity").status_code == 200
        time.sleep(1.2)
        assert greedy.get("/v1/identity").status_code == 200
        # A stranger is told apart by the address he has, not by one that he claims, nor by the tokens he tries.
        claimed = [
            stranger.get("/healthz", headers={"x-forwarded-for": f"10.0.0.{number}"}).status_code for number in range(60)
        ]
        assert 429 in claimed
        guesses = [
            stranger.get("/v1/identity", headers={"authorization": f"Bearer falaj_guess{number}"}).status_code
            for number in range(60)
        ]
        assert set(guesses) == {401, 429} or set(guesses) == {429}
        assert guesses[-1] == 429
        assert modest.get("/v1/identity").status_code == 200
