"""However a stream of requests is cut into pieces, the same requests are read from it and answered in the same order."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.serving.plane.rest.edge import Edge
from falaj.serving.plane.rest.routes import Routes
from tests.serving.plane.rest.arithmetic import Arithmetic
from tests.serving.plane.rest.wires import get, post, sum_request


class Recorded:
    """A transport without a network."""

    def __init__(self) -> None:
        self.written = b""
        self.paused = self.closed = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def chunked(path: str, body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%X\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


INFER = "/v2/models/sum/infer"
REQUESTS = st.one_of(
    st.integers(0, 99).map(lambda number: post(INFER, sum_request([number, 0, 0]))),
    st.integers(0, 99).flatmap(lambda number: st.integers(1, 50).map(lambda n: chunked(INFER, sum_request([number, 0, 0]), n))),
    st.just(get("/v2/health/live")),
    st.just(get("/nowhere")),
    st.just(post("/nowhere", b"")),
    st.just(post(INFER, b"not json")),
)


async def answers(pieces: list[bytes], hold: bool) -> list[Any]:
    core = Arithmetic()
    core.hold = hold
    edge = Edge(Routes(core, version="1"))
    connection, transport = edge(), Recorded()
    connection.connection_made(transport)  # type: ignore[arg-type]
    waiting = list(pieces)
    for _ in range(100_000):
        if waiting and not transport.paused:
            view = connection.get_buffer(65_536)
            taken = waiting[0][: len(view)]
            view[: len(taken)] = taken
            waiting[0] = waiting[0][len(taken) :]
            if not waiting[0]:
                del waiting[0]
            connection.buffer_updated(len(taken))
        elif core.held:
            core.answer(core.held.pop(0))
        await asyncio.sleep(0)
        if not waiting and not core.held and connection.exchange is None and not transport.paused:
            break
    connection.connection_lost(None)
    assert edge.shared.shares.taken == 0
    return _replies(transport.written)


def _replies(written: bytes) -> list[Any]:
    replies = []
    while written:
        head, _, written = written.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        replies.append((int(head.split()[1]), json.loads(written[:length])))
        written = written[length:]
    return replies


@given(st.lists(REQUESTS, min_size=1, max_size=25), st.lists(st.integers(1, 400), min_size=1), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_same_answers(requests: list[bytes], sizes: list[int], hold: bool) -> None:
    whole, at = b"".join(requests), 0
    pieces: list[bytes] = []
    while at < len(whole):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(whole[at : at + size])
        at += size
    expected = [reply for one in requests for reply in asyncio.run(answers([one], False))]
    assert len(expected) == len(requests)
    assert asyncio.run(answers(pieces, hold)) == expected


@given(st.binary(max_size=400), st.integers(1, 50))
@settings(max_examples=150, deadline=None)
def test_arbitrary_bytes_get_an_error_or_nothing(data: bytes, size: int) -> None:
    for stream in (data, post(INFER, sum_request([1, 2, 3])) + data, chunked(INFER, b"x", 1)[:-5] + data):
        replies = asyncio.run(answers([stream[at : at + size] for at in range(0, len(stream), size)], False))
        assert all(status in (200, 400, 404, 405, 417, 431) for status, _ in replies)


@pytest.mark.parametrize("size", [100, 70_000, 1_000_000])
def test_bodies_of_any_size_arrive_whole(size: int) -> None:
    body = sum_request([1, 2, 3]) + b" " * size
    assert asyncio.run(answers([post(INFER, body)], False))[0][1]["outputs"][0]["data"] == [6.0]
    assert asyncio.run(answers([chunked(INFER, body, 60_000)], False))[0][1]["outputs"][0]["data"] == [6.0]
