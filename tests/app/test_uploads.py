"""Uploads that crawl take no more than their share of the threads; everybody else is served meanwhile."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from tests.app.running import RunningPlatform

EACH, TOTAL = 8, 24


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def crawl(platform: RunningPlatform, token: str) -> socket.socket:
    """An upload that has begun and does not go on."""
    connection = platform.connect()
    head = f"POST /v1/projects/default/blobs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
    connection.sendall(f"{head}content-length: 1000000\r\n\r\nsome".encode())
    return connection


def under_way(platform: RunningPlatform) -> int:
    return len(list(platform.home.blobs.glob("incoming/*")))


def take(platform: RunningPlatform, held: ExitStack, tokens: list[str], count: int) -> None:
    for token in tokens:
        for _ in range(EACH):
            held.enter_context(crawl(platform, token))
    deadline = time.monotonic() + 20
    while under_way(platform) < count:
        assert time.monotonic() < deadline, under_way(platform)
        time.sleep(0.02)


def put(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/projects/default/blobs", content=b"x", headers={"content-type": "application/octet-stream"})


def gone(platform: RunningPlatform) -> None:
    deadline = time.monotonic() + 20
    while under_way(platform):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_ninth_upload_of_one_token_is_refused_and_short_calls_go_on(platform: RunningPlatform, held: ExitStack) -> None:
    other = platform.call(CREATE_TOKEN, CreateToken(label="other")).token
    take(platform, held, [platform.token], EACH)
    with platform.http(platform.token) as http:
        refused = put(http)
        assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
        assert int(refused.headers["retry-after"]) >= 1
        assert http.get("/v1/identity").status_code == 200
    with platform.http(other) as http:
        assert put(http).status_code == 200
    held.close()
    gone(platform)
    with platform.http(platform.token) as http:
        assert put(http).status_code == 200


def test_with_every_slot_taken_health_calls_and_pages_still_answer(platform: RunningPlatform, held: ExitStack) -> None:
    tokens = [platform.call(CREATE_TOKEN, CreateToken(label=f"crawler-{number}")).token for number in range(3)]
    take(platform, held, tokens, TOTAL)
    with platform.http(platform.token) as http:
        assert put(http).status_code == 429
        started = time.monotonic()
        for path in ("/healthz", "/v1/identity", "/sign-in"):
            assert http.get(path).status_code == 200
        assert time.monotonic() - started < 3
    held.close()
    gone(platform)
