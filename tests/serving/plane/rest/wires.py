"""A client that sends exactly the bytes it is told to."""

import json
import socket
import time
from collections.abc import Sequence
from typing import Any

from tests.serving.plane.rest.arithmetic import Server


class Reply:
    def __init__(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body = body

    @property
    def said(self) -> Any:
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        return self.fields.get("connection") == "close"


class Wire:
    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self._held = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _more(self) -> bool:
        data = self.socket.recv(1 << 20)
        self._held += data
        return bool(data)

    def reply(self, *, is_head: bool = False) -> Reply:
        while b"\r\n\r\n" not in self._held:
            assert self._more(), f"closed after {self._held!r}"
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        fields = {name.lower(): content.strip() for name, _, content in (one.partition(":") for one in rest)}
        length = 0 if is_head else int(fields.get("content-length", 0))
        while len(self._held) < length:
            assert self._more(), "closed within a body"
        body, self._held = self._held[:length], self._held[length:]
        return Reply(int(line.split()[1]), fields, body)

    def is_closed(self, within: float = 60.0) -> bool:
        """Whether the server ends the connection without saying more."""
        assert not self._held
        self.socket.settimeout(within)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def post(path: str, body: bytes, *lines: str, token: str = "good") -> bytes:
    head = [f"POST {path} HTTP/1.1", "host: here", f"authorization: Bearer {token}", f"content-length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def get(path: str, *lines: str, token: str = "good") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: here", f"authorization: Bearer {token}", *lines, "", ""]).encode()


def sum_request(*rows: Sequence[float]) -> bytes:
    data = [number for row in rows for number in row]
    said = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(rows), 3], "data": data}]}
    return json.dumps(said).encode()


def wait_until(true: Any, within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)
