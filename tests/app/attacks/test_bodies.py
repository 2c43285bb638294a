"""Attacks by what is sent: bodies and queries that say nothing sensible, or too much.

Each must get a clear 4xx that tells nothing, change nothing, and (where somebody known was refused) leave a leaf.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as fields_of
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import pytest

from falaj.api.openapi import in_body
from falaj.app.platform import OPERATIONS
from falaj.base.operation import Operation
from falaj.base.values import Items, Range, Text
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    CreateToken,
)
from tests.app.attacks.raw import body_of, raw_request
from tests.app.attacks.turns import in_turns, turn
from tests.app.world import BY_NAME, World, check_refusal


def test_a_change_does_change_the_state_that_is_compared(world: World):
    before = world.state()
    assert world.state() == before
    world.platform.call(CREATE_TOKEN, CreateToken(label="a change"))
    assert world.state() != before


# Bodies and queries

BODIED = [operation for operation in OPERATIONS if in_body(operation)]
QUERIED = [operation for operation in OPERATIONS if not in_body(operation)]
WRONG = [None, True, -1, 1.5, 10**400, -(10**30), "\x00", "\ud800", "x" * 30_000, [], {}, [[]], {"a": 1}, [None], ["a", 1]]


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


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_malformed_body_is_refused_by_every_operation(world: World, every: int):
    for place, malformed in enumerate(MALFORMED.values()):
        for operation in turn(BODIED, place, every):
            check_refusal(sent(world, operation, malformed), 400)


@pytest.mark.usefixtures("unchanged")
def test_every_depth_around_the_recursion_limit_is_refused_alike(world: World):
    """Reading and writing JSON recurse differently, so there is a depth at which only one of them gives up."""
    for depth in range(150, 1100, 7):
        check_refusal(sent(world, BY_NAME["project.create"], nested(depth)), 400)
        check_refusal(sent(world, BY_NAME["project.create"], b'{"zones":' * depth + b"1" + b"}" * depth), 400)


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_field_of_the_wrong_type_is_refused(world: World, every: int):
    fields = [(each, field) for each in BODIED for field in each.request.__dataclass_fields__ if field not in each.path_fields]
    for place, (operation, field) in enumerate(fields):
        for wrong in turn(WRONG, place, every):
            if not fits(operation, field, wrong):
                document = body_of(world, operation) | {field: wrong}
                check_refusal(sent(world, operation, json.dumps(document).encode()), 400)


def fits(operation: Operation[Any, Any], field: str, wrong: Any) -> bool:
    """Some of the wrong values are right for some fields: nothing for an optional one, an empty list for names, and all for one
    that takes whatever a step hands on."""
    parts = list(within(get_type_hints(operation.request, include_extras=True)[field]))
    if Any in parts:
        return True
    limits = {type(mark): mark for part in parts for mark in getattr(part, "__metadata__", ())}
    if wrong is None or wrong is True:
        return type(wrong) in parts
    if wrong == -1 and Range in limits:
        return bool(limits[Range].least <= wrong)
    if wrong in (-1, 1.5) or (isinstance(wrong, int) and Range not in limits):
        return float in parts
    if wrong == {}:
        return any(get_origin(part) is dict or (is_dataclass(part) and all_have_defaults(part)) for part in parts)
    if wrong == []:
        return any(get_origin(part) is tuple for part in parts) and getattr(limits.get(Items), "least", 0) == 0
    return isinstance(wrong, str) and wrong.startswith("x") and Text in limits and limits[Text].longest >= len(wrong)


def all_have_defaults(kind: Any) -> bool:
    return all(field.default is not MISSING or field.default_factory is not MISSING for field in fields_of(kind))


def within(hint: Any) -> Iterator[Any]:
    """A type and what its alternatives and annotations are made of, items of lists apart."""
    yield hint
    if get_origin(hint) is not tuple:
        for part in get_args(hint):
            yield from within(part)


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_body_of_another_kind_is_refused(world: World, every: int):
    for place, kind in enumerate(
        ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "")
    ):
        for operation in turn(BODIED, place, every):
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


@in_turns
@pytest.mark.usefixtures("unchanged")
def test_a_malformed_query_is_refused_by_every_operation(world: World, every: int):
    for place, query in enumerate(QUERIES):
        for operation in turn(QUERIED, place, every):
            if query != "path-field-again" or belongs_into_the_path(operation, "project"):
                check_query(world, operation, QUERIES[query])


def belongs_into_the_path(operation: Operation[Any, Any], field: str) -> bool:
    return field in operation.path_fields or field not in operation.request.__dataclass_fields__


def check_query(world: World, operation: Operation[Any, Any], query: str) -> None:
    given = world.request(operation)
    joiner = "&" if given.url.query else "?"
    url = f"{given.url}{joiner}{query}"
    raw = url.removeprefix(world.platform.url).encode()
    answer = raw_request(world, operation.method, raw, token=world.tokens["owner"])
    # A cursor is read by the listing itself: operations without one refuse the unknown field.
    assert answer.status == 400, f"{operation.method} {url[:200]} -> {answer.text[:300]}"
    answer.check()
