"""Attacks by asking too much, too slowly, too often, or two things at once."""

import resource
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.app.attacks.conftest import SMALL_BODY, SMALL_UPLOAD
from tests.app.attacks.raw import Raw, raw_request
from tests.app.running import RunningPlatform, read_to_end
from tests.app.world import BY_NAME, World, check_refusal


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


class Idle(threading.Thread):
    """A client that never says anything; how long it was borne with."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self._connection = world.platform.connect(timeout=30)
        self.seconds = 0.0
        self.start()

    def run(self) -> None:
        started = time.monotonic()
        with self._connection:
            read_to_end(self._connection)
        self.seconds = time.monotonic() - started


@pytest.fixture(scope="module")
def idle_client(world: World) -> Idle:
    """Says nothing while the slow clients are watched, so that one wait does for both."""
    return Idle(world)


@pytest.mark.usefixtures("idle_client")
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


def test_an_idle_connection_is_closed_in_time(idle_client: Idle):
    idle_client.join(30)
    assert 5 < idle_client.seconds < 20


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
