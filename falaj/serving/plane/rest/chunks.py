"""Bodies that come in chunks, put together. As strict as heads are: what two parsers could read differently is refused."""

import re
from typing import Final

from falaj.base.errors import TooLarge
from falaj.serving.plane.rest.heads import Malformed

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?")
_LINE_MOST: Final = 1024  # of a size with what may follow it
_CHUNKS_MOST: Final = 200_000
_TRAILERS_MOST: Final = 16 * 1024
_END: Final = b"\r\n"
_PLAIN_MOST: Final = 0xFFF
_PLAIN: Final = {form % size: size for size in range(1, _PLAIN_MOST + 1) for form in (b"%x", b"%X")}


class Chunks:
    """Takes the bytes as they arrive, in pieces of any size. The cost is linear in them, and in the number of chunks, which is
    bounded. Trailers are read over.

    Each state takes what it can from a place on and gives the place after it; the last one gives it negative, less one.
    """

    __slots__ = ("_chunks", "_left", "_line", "_most", "_state", "_trailers", "body")

    def __init__(self, most: int) -> None:
        self.body = bytearray()
        self._most = most
        self._left = 0
        self._chunks = 0
        self._trailers = 0
        self._line = b""  # the beginning of a line whose end has not come
        self._state = self._size

    def feed(self, data: bytes) -> int:
        """How many of the bytes belong to the body once it is complete; -1 while it is not. Raises `Malformed`, `TooLarge`."""
        at, end = 0, len(data)
        while 0 <= at < end:
            if self._state == self._size and not self._line:
                at = self._take_whole(data, at)
                if at >= end:
                    break
            at = self._state(data, at)
        return -at - 1 if at < 0 else -1

    def _take_whole(self, data: bytes, at: int) -> int:
        """Chunks of plain size that lie here whole: as the states would do, in less time for each. No more of them than can be
        taken without looking at the bounds."""
        body = self.body
        most = min(_CHUNKS_MOST, self._chunks + (self._most - len(body)) // _PLAIN_MOST)
        while self._chunks < most:
            line = data.find(_END, at, at + 5)
            size = _PLAIN.get(data[at:line]) if line > 0 else None
            if size is None:
                break
            stop = line + 2 + size
            if data[stop : stop + 2] != _END:
                break
            body += data[line + 2 : stop]
            at = stop + 2
            self._chunks += 1
        return at

    def _take_line(self, data: bytes, at: int) -> tuple[bytes | None, int]:
        end = data.find(b"\n", at)
        piece = data[at:] if end < 0 else data[at:end]
        line = self._line + piece
        if len(line) > _LINE_MOST:
            raise Malformed(f"a line between chunks is longer than {_LINE_MOST} bytes")
        if end < 0:
            self._line = line
            return None, len(data)
        self._line = b""
        if not line.endswith(b"\r"):
            raise Malformed("a line between chunks does not end with CR LF")
        return line[:-1], end + 1

    def _size(self, data: bytes, at: int) -> int:
        line, at = self._take_line(data, at)
        if line is None:
            return at
        match = _SIZE.fullmatch(line)
        if match is None:
            raise Malformed("a chunk's size is not a plain hexadecimal number")
        self._left = int(match[1], 16)
        self._chunks += 1
        if len(self.body) + self._left > self._most:
            raise TooLarge(f"the body is larger than the {self._most} bytes that are taken")
        if self._chunks > _CHUNKS_MOST:
            raise TooLarge(f"the body comes in more than {_CHUNKS_MOST} chunks: send larger ones")
        self._state = self._data if self._left else self._trailer
        return at

    def _data(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self.body += piece
        self._left -= len(piece)
        if not self._left:
            self._state = self._after
        return at + len(piece)

    def _after(self, data: bytes, at: int) -> int:
        line, at = self._take_line(data, at)
        if line is not None:
            if line:
                raise Malformed("a chunk is longer than its size")
            self._state = self._size
        elif not _END.startswith(self._line):
            raise Malformed("a chunk is longer than its size")
        return at

    def _trailer(self, data: bytes, at: int) -> int:
        line, after = self._take_line(data, at)
        self._trailers += after - at
        if self._trailers > _TRAILERS_MOST:
            raise Malformed(f"what follows the last chunk is longer than {_TRAILERS_MOST} bytes")
        return -after - 1 if line == b"" else after
