"""Header fields: which ones a request may have (RFC 9113, section 8), and how ours are written.

Ours are written without a table and without Huffman, so that what is always the same can be a constant.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

Field: TypeAlias = tuple[bytes, bytes]

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_FORBIDDEN_VALUE: Final = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"),
)
_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_STATUS_200: Final = b"\x88"  # entry 8 of the static table


class Malformed(Exception):
    """Fields that no request may have; the stream is reset, as the protocol wants it."""


class Request:
    """The fields of a request that keeps the rules; `length` is its `content-length`, or -1."""

    __slots__ = ("length", "method", "path", "regular")

    def __init__(self, method: bytes, path: bytes, regular: list[Field], length: int) -> None:
        self.method = method
        self.path = path
        self.regular = regular
        self.length = length


def read_request(fields: Iterable[Field]) -> Request:
    """Raises `Malformed`."""
    pseudo: dict[bytes, bytes] = {}
    regular: list[Field] = []
    for name, content in fields:
        if name[:1] == b":":
            if regular or name not in _PSEUDO or name in pseudo or _FORBIDDEN_VALUE.search(content):
                raise Malformed(name)
            pseudo[name] = content
        else:
            _check_regular(name, content)
            regular.append((name, content))
    method = pseudo.get(b":method", b"")
    path = pseudo.get(b":path", b"")
    if method == b"CONNECT":
        if b":scheme" in pseudo or b":path" in pseudo or not pseudo.get(b":authority"):
            raise Malformed("CONNECT")
    elif not method or not pseudo.get(b":scheme") or not path or not (path[:1] == b"/" or path == b"*"):
        raise Malformed("method, scheme or path")
    return Request(method, path, regular, _content_length(regular))


def check_trailers(fields: Iterable[Field]) -> None:
    """Raises `Malformed`."""
    for name, content in fields:
        _check_regular(name, content)  # which no pseudo field is


def _check_regular(name: bytes, content: bytes) -> None:
    if not _NAME.fullmatch(name) or _FORBIDDEN_VALUE.search(content):
        raise Malformed(name)
    if name in _OF_CONNECTIONS or (name == b"te" and content.lower() != b"trailers"):
        raise Malformed(name)


def _content_length(regular: list[Field]) -> int:
    lengths = {content for name, content in regular if name == b"content-length"}
    if not lengths:
        return -1
    text = lengths.pop()
    if lengths or not text.isdigit() or len(text) > 15:
        raise Malformed("content-length")
    return int(text)


def _string(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    size -= 127
    length = bytearray((127,))
    while size >= 128:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length) + text


def write_field(name: bytes, content: bytes) -> bytes:
    return b"\x00" + _string(name) + _string(content)


def write_status(status: int) -> bytes:
    return _STATUS_200 if status == 200 else write_field(b":status", str(status).encode())
