"""Heads: what is read from them, and that knowing them by their bytes can be neither abused nor wrong."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import NotFound, TooLarge
from falaj.serving.plane.rest.heads import CHUNKED, Head, Heads, Malformed, Route, read_head
from falaj.serving.plane.rest.limits import Limits


def find(method: str, path: str) -> Route:
    if path == "/none":
        raise NotFound("none")
    return Route(call=lambda *_: None, name=path, cached=True)


def head(*lines: str, first: str = "POST /m HTTP/1.1") -> bytes:
    return "\r\n".join([first, "host: a", *lines, "", ""]).encode()


def test_everything_that_is_said_is_understood() -> None:
    read = read_head(
        head(
            "Authorization: bearer abc.def",
            "Content-Length: 12",
            "Inference-Header-Content-Length: 5",
            "X-Falaj-Key: k",
            "X-Falaj-Revision: 4",
            "X-Falaj-Deadline-Ms: 1500",
            "Accept-Encoding: br;q=1, gzip;q=0, deflate",
            "Content-Encoding: gzip",
            "Prefer: wait=1, respond-async",
        ),
        find,
    )
    assert (read.token, read.length, read.header_length, read.key, read.override) == ("abc.def", 12, 5, "k", "4")
    assert (read.patience, read.accepts, read.encoding, read.deferred, read.keep) == (1.5, "deflate", "gzip", True, True)


@pytest.mark.parametrize("said", ["Basic abc", "Bearer", "abc", ""])
def test_another_kind_of_authorization_is_no_token(said: str) -> None:
    assert read_head(head(f"authorization: {said}"), find).token == ""


def test_what_is_wrong_with_the_request_alone_leaves_the_framing_clear() -> None:
    read = read_head(head("content-length: 3", first="POST /none HTTP/1.1"), find)
    assert (read.length, type(read.refused)) == (3, NotFound)


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for() -> None:
    assert read_head(head("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAA"), find).keep


def test_the_length_is_bounded() -> None:
    heads = Heads(find, Limits(body=10))
    assert heads.read(head("content-length: 10")).length == 10
    with pytest.raises(TooLarge):
        heads.read(head("content-length: 11"))
    assert heads.read(head("transfer-encoding: Chunked")).length == CHUNKED


def test_a_head_is_known_once_its_request_was_answered_well() -> None:
    heads = Heads(find, Limits())
    first = heads.read(head())
    assert heads.read(head()) is not first
    heads.learn(first)
    assert heads.read(head()) is first
    assert first.raw == b""


@given(st.lists(st.integers(0, 40), max_size=300))
def test_the_cache_is_bounded_and_never_mistaken(order: list[int]) -> None:
    heads = Heads(find, Limits(), entries=16)
    for number in order:
        read = heads.read(head(f"x-falaj-key: {number}"))
        assert read.key == str(number)
        heads.learn(read)
        assert len(heads) <= 16


def test_heads_in_use_outlive_a_flood_of_others() -> None:
    heads = Heads(find, Limits(), entries=100)
    used = heads.read(head("x-falaj-key: used"))
    heads.learn(used)
    for number in range(1_000):
        heads.learn(heads.read(head(f"x-falaj-key: {number}")))
        if number % 20 == 0:
            assert heads.read(head("x-falaj-key: used")) is used
    assert len(heads) <= 100


def test_the_cache_is_bounded_by_size_too() -> None:
    heads = Heads(find, Limits(), size=100_000)
    for number in range(100):
        heads.learn(heads.read(head(f"x-falaj-key: {number}", "x: " + "a" * 5000)))
    assert len(heads) < 10


def test_unknown_heads_cost_little() -> None:
    heads = Heads(find, Limits())
    began = time.process_time()
    for number in range(2_000):
        heads.learn(heads.read(head(f"x-falaj-key: {number}")))
    assert (time.process_time() - began) / 2_000 < 0.001


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_read(tail: bytes) -> None:
    for raw in (tail, b"POST /m HTTP/1.1\r\nhost: a\r\n" + tail + b"\r\n\r\n"):
        with contextlib.suppress(Malformed):
            assert isinstance(read_head(raw, find), Head)
            assert raw.endswith(b"\r\n\r\n")
