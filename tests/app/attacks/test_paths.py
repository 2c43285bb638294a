"""Attacks by where and how it is sent: paths, methods and headers that mean something else to somebody else."""

import json
from typing import Any

import pytest

from falaj.api.openapi import in_body, url_of
from falaj.app.platform import OPERATIONS
from falaj.base.operation import Group, Operation
from tests.app.attacks.raw import Raw, body_of, raw_request
from tests.app.attacks.turns import in_turns, turn
from tests.app.world import World, check_refusal

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


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_path_trick_leads_nowhere_in_any_operation(world: World, every: int):
    """In every field of every path, and by somebody who may do everything, so that nothing else refuses it first."""
    fields = [(operation, field) for operation in OPERATIONS for field in operation.path_fields]
    for place, trick in enumerate(TRICKS):
        for operation, field in turn(fields, place, every):
            if trick == "upper-case" and operation.name.startswith("secret.") and field == "name":
                continue  # that is how secrets are written
            target = target_of(world, operation, {field: TRICKS[trick]})
            body = json.dumps(body_of(world, operation)).encode() if in_body(operation) else b""
            raw_request(world, operation.method, target, token=world.tokens["owner"], body=body).check()


def target_of(world: World, operation: Operation[Any, Any], given: dict[str, bytes]) -> bytes:
    samples = world.things["alpha"] | {
        "user": "nora",
        "member": "nora",
        "purpose": "ledger",
        "name": "console.css",
        "tag": "tagged",
        "piece": 2,
        "place": "lake",
        "action": world.things["alpha"]["alert_action"],
        "variant": "int8",
        "file": "model.onnx",
        "step": "ask",
        "about": "licence",
    }
    target = url_of(operation).encode()
    for name in operation.path_fields:
        target = target.replace(b"{%s}" % name.encode(), given.get(name, str(samples[name]).encode()))
    return target


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


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_method_that_nobody_declared_is_refused(world: World, every: int):
    for place, method in enumerate(("HEAD", "PATCH", "TRACE", "TRACK", "PROPFIND", "get", "QUERY")):
        for operation in turn(OPERATIONS, place, every):
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


ODD = (
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
)


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_an_odd_authorization_header_is_refused(world: World, every: int):
    guarded = [operation for operation in OPERATIONS if operation.permission.group is not Group.PUBLIC]
    for place, odd in enumerate(ODD):
        headers = b"authorization: " + odd.encode("latin-1") + b"\r\n"
        for operation in turn(guarded, place, every):
            target = str(world.request(operation).url).removeprefix(world.platform.url).encode()
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
