"""The edge of the socket, tried with raw bytes against a real server."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse

from falaj.api import protocol


async def greet(scope: object, receive: object, send: object) -> None:
    await PlainTextResponse("hello")(scope, receive, send)  # type: ignore[arg-type]


@contextmanager
def serving(app: object) -> Iterator[tuple[tuple[str, int], uvicorn.Server]]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=protocol.GuardedProtocol,
        loop="uvloop",
        lifespan="off",
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname(), server
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE", 0.4)
    with serving(greet) as (address, _):
        yield address


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(5)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_whole_request_is_answered_and_the_connection_stays(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.5)  # idle for longer than a head may take: that is keep-alive, not dawdling


def test_a_connection_that_says_nothing_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_a_head_that_trickles_is_cut_off(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        started = time.monotonic()
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.settimeout(0.05)
        answer = b""
        while not answer and time.monotonic() - started < 3:
            connection.sendall(b"a: b\r\n")
            try:
                answer = connection.recv(100)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_huge_head_is_refused(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"x-filler: " + b"a" * 1000 + b"\r\n")
                time.sleep(0.001)
        except OSError:
            pass  # the server closed on us, as it should
        try:
            answer = read_all(connection)
        except ConnectionResetError:
            answer = b"HTTP/1.1 431"
        assert answer.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
        b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nbad\x00name: y\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GARBAGE\r\n\r\n",
    ],
)
def test_smuggling_and_garbage_are_refused(address: tuple[str, int], request_bytes: bytes) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(request_bytes)
        assert read_all(connection).startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))


async def pour(scope: object, receive: object, send: object) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)
            await asyncio.sleep(0)

    await StreamingResponse(endless())(scope, receive, send)  # type: ignore[arg-type]


def test_a_client_that_never_reads_its_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "READ_DEADLINE", 0.4)
    with serving(pour) as (address, server), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: len(server.server_state.connections) == 1)
        until(lambda: not server.server_state.connections and not server.server_state.tasks)
        assert (server.server_state.connections, server.server_state.tasks) == (set(), set())


@pytest.mark.parametrize("at_once", [1 << 20, 1 << 14])
def test_a_client_that_reads_is_not_however_slowly(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(protocol, "READ_DEADLINE", 0.6)
    with serving(pour) as (address, server), socket.create_connection(address) as connection:
        connection.settimeout(5)
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        started = time.monotonic()
        while time.monotonic() - started < 3:
            assert connection.recv(at_once)
            time.sleep(0.02)
        assert server.server_state.connections


def test_one_address_does_not_take_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_PER_ADDRESS", 3)
    with serving(greet) as (address, server), ExitStack() as held:
        ours = [held.enter_context(socket.create_connection(address)) for _ in range(3)]
        until(lambda: len(server.server_state.connections) == 3)
        with socket.create_connection(address) as fourth, suppress(ConnectionResetError):
            assert read_all(fourth) == b""
        with socket.create_connection(address, source_address=("127.0.0.2", 0)) as neighbour:
            neighbour.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert read_all(neighbour).endswith(b"hello")
        ours[0].close()
        until(lambda: len(server.server_state.connections) == 2)
        with socket.create_connection(address) as again:
            again.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert read_all(again).endswith(b"hello")
