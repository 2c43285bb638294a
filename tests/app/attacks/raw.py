"""Requests as the very bytes that are sent, and answers as they come over the socket."""

import json
import re
from typing import Any

from falaj.base.operation import Operation
from tests.app.world import LEAKS, World


class Raw:
    """An answer as it came over the socket."""

    def __init__(self, received: bytes) -> None:
        self.received = received
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0] else 0
        self.headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        self.body = body
        self.text = body.decode(errors="replace")

    def check(self) -> None:
        told = self.received[:600].decode(errors="replace")
        assert 400 <= self.status < 500, told
        assert not LEAKS.search(self.text), told


def raw_request(world: World, method: str, target: bytes, *, token: str | None, headers: bytes = b"", body: bytes = b"") -> Raw:
    """One request with this very target: no client in between that would tidy it up."""
    authorization = b"authorization: Bearer " + token.encode() + b"\r\n" if token else b""
    host = (
        b"" if re.search(rb"^host:", headers.lower(), re.MULTILINE) else f"host: 127.0.0.1:{world.platform.port}\r\n".encode()
    )
    content = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body) if body else b""
    head = (
        method.encode()
        + b" "
        + target
        + b" HTTP/1.1\r\n"
        + host
        + authorization
        + headers
        + content
        + b"connection: close\r\n\r\n"
    )
    return Raw(world.platform.raw(head + body))


def body_of(world: World, operation: Operation[Any, Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(world.request(operation).content)
    return document
