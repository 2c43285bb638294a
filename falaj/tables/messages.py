"""What passes through a data worker's walls: JSON with descriptors beside it, over a Unix socket. Nothing is ever unpickled.

Both sides read and write it here, so that neither needs a data library for it.
"""

import array
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.base.errors import Corrupt, TooLarge

LONGEST_ORDER: Final = 1 << 30
LONGEST_ANSWER: Final = 64 << 20  # what a hostile worker may have others read
_LENGTHS: Final = struct.Struct("<II")  # of the text, and how many descriptors
_AT_ONCE: Final = 200  # the kernel takes 253
_PIECE: Final = 1 << 20


class Ended(Exception):
    """The other side is gone."""


def send(to: socket.socket, told: Mapping[str, Any], files: Sequence[int] = (), *, longest: int = LONGEST_ORDER) -> None:
    """Raises `TooLarge` before anything is sent, `Ended`, or `TimeoutError` where the socket has a time."""
    text = json.dumps(told, ensure_ascii=False).encode()
    if len(text) > longest:
        raise TooLarge(f"This has more than {longest >> 20} MiB as JSON: ask for fewer rows or columns.")
    try:
        to.sendall(_LENGTHS.pack(len(text), len(files)))
        for start in range(0, len(files), _AT_ONCE):
            some = array.array("i", files[start : start + _AT_ONCE])
            to.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
        to.sendall(text)
    except (BrokenPipeError, ConnectionError) as error:
        raise Ended from error


def receive(of: socket.socket, *, most_files: int = 0, longest: int = LONGEST_ANSWER) -> tuple[dict[str, Any], list[int]]:
    """Raises `Ended`, `Corrupt` for what is no message, and `TimeoutError` where the socket has a time."""
    length, count = _LENGTHS.unpack(_exactly(of, _LENGTHS.size))
    if length > longest or count > most_files:
        raise Corrupt("a message that is longer than any")
    files: list[int] = []
    while len(files) < count:
        data, some, _, _ = socket.recv_fds(of, 1, min(_AT_ONCE, count - len(files)))
        if not data or not some:
            raise Ended
        files += some
    try:
        told = json.loads(_exactly(of, length))
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"a message that cannot be read: {error}") from None
    if not isinstance(told, dict):
        raise Corrupt("a message that is no object")
    return told, files


def _exactly(of: socket.socket, length: int) -> bytes:
    """In pieces as they come: what is announced is not believed before it is there."""
    gathered = bytearray()
    while len(gathered) < length:
        try:
            piece = of.recv(min(_PIECE, length - len(gathered)))
        except ConnectionError as error:
            raise Ended from error
        if not piece:
            raise Ended
        gathered += piece
    return bytes(gathered)
