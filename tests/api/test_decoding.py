import json
from contextlib import suppress
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.api.decoding import request_of
from falaj.base.errors import Invalid
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Range, Text, value


@value
class Ask(Message):
    project: Name
    count: Annotated[int, Range(least=0, most=10)] = 1
    note: Annotated[str, Text(longest=20)] = ""
    parts: tuple[Name, ...] = ()


def operation(method: str = "POST") -> Operation[Ask, Ask]:
    return Operation(
        name="test.ask",
        summary="",
        method=method,  # type: ignore[arg-type]
        path="asks/{project}",
        request=Ask,
        result=Ask,
        permission=Permission(name="test.ask", group=Group.READ),
        scope=Scope.PROJECT,
        record=Record.PLAIN_READ,
    )


def from_body(body: bytes, path: dict[str, str] | None = None) -> Ask:
    return request_of(operation(), {"project": "a"} if path is None else path, b"", body)


def test_a_body_becomes_the_request() -> None:
    assert from_body(b'{"count": 3, "parts": ["x"]}') == Ask(project="a", count=3, parts=("x",))


def test_an_empty_body_leaves_the_defaults() -> None:
    assert from_body(b"") == Ask(project="a")


def test_the_query_becomes_the_request() -> None:
    assert request_of(operation("GET"), {"project": "a"}, b"count=4&note=x%20y", None) == Ask(project="a", count=4, note="x y")


@pytest.mark.parametrize(
    ("text", "ok"), [("3", True), ("03", False), ("3.0", False), ("x", False), ("9" * 5000, False), ("-1", False)]
)
def test_a_number_in_the_path_beside_a_body_is_a_number_in_its_plain_spelling(text: str, ok: bool) -> None:
    path = {"project": "a", "count": text}
    if ok:
        assert from_body(b'{"note": "x"}', path) == Ask(project="a", count=3, note="x")
    else:
        with pytest.raises(Invalid):
            from_body(b'{"note": "x"}', path)


@pytest.mark.parametrize(
    "body",
    [
        b'{"count": 1, "count": 2}',
        b'{"parts": [], "unknown": 1}',
        b'{"count": "1"}',
        b'{"count": 1.0}',
        b'{"count": true}',
        b'{"count": -1}',
        b'{"count": 1e400}',
        b'{"count": ' + b"9" * 5000 + b"}",
        b'{"count": NaN}',
        b'{"note": "\xff"}',
        b'{"note": "\\ud800"}',
        b'{"note": 1}',
        b'{"project": "b"}',
        b"[1]",
        b"null",
        b'"text"',
        b"{",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"parts": ' + b"[" * 100_000,
        b'{"note": "' + b"a" * 21 + b'"}',
        b'{"parts": ["../x"]}',
    ],
)
def test_a_bad_body_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(Invalid) as refusal:
        from_body(body)
    assert 0 < len(str(refusal.value)) < 2000


@pytest.mark.parametrize(
    "name", ["", "..", ".", "A", "a/b", "a b", "a\n", "a\0", "a;b", "a#b", "a?b", "%2e", "é", "a" * 101, "-a"]
)
def test_a_bad_name_in_the_path_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        from_body(b"{}", {"project": name})


@pytest.mark.parametrize(
    "query",
    [b"count=1&count=2", b"count=x", b"nope=1", b"count", b"note=%ff", b"\xff=1", b"project=b", b"&".join([b"a=1"] * 60)],
)
def test_a_bad_query_is_refused(query: bytes) -> None:
    with pytest.raises(Invalid):
        request_of(operation("GET"), {"project": "a"}, query, None)


def test_a_query_beside_a_body_is_refused() -> None:
    with pytest.raises(Invalid):
        request_of(operation(), {"project": "a"}, b"count=1", b"{}")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_request_or_a_refusal(body: bytes) -> None:
    with suppress(Invalid):
        assert isinstance(from_body(body), Ask)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    )
)
def test_any_json_gives_a_request_or_a_refusal(document: object) -> None:
    with suppress(Invalid):
        assert isinstance(from_body(json.dumps(document).encode()), Ask)
