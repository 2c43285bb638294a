"""The edge of the socket, tried with raw bytes against a real server."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from falaj.api import protocol


async def greet(scope: object, receive: object, send: object) -> None:
    await PlainTextResponse("hello")(scope, receive, send)  # type: ignore[arg-type]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(protocol, "HEAD_DEADLINE", 0.4)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(greet, http=protocol.GuardedProtocol, lifespan="off", ws="none", log_config=None)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()
    server.should_exit = True
    thread.join()
    listener.close()


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
