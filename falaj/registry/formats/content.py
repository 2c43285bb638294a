"""A stored file read here and there: only the parts somebody looks at, and only so much of it."""

import io
import struct
from collections.abc import Callable

# A part of a file's content: its name, the offset, and how many bytes at most; fewer where it ends before.
Read = Callable[[str, int, int], bytes]
PAGE = 64 * 1024
MOST_READ = 32 << 20


class Malformed(Exception):
    """The bytes do not follow their format, or not within the limits of reading; the message says how."""


class Content:
    """One file's content. Belongs to one thread. Reads pages, remembers the last two and reads no more than `most` in all."""

    def __init__(self, read: Read, name: str, size: int, *, most: int = MOST_READ) -> None:
        self.name = name
        self.size = size
        self._read = read
        self._left = most
        self._pages: dict[int, bytes] = {}

    def at(self, offset: int, length: int) -> bytes:
        """Exactly so many bytes. Raises `Malformed` where the file ends before."""
        if offset < 0 or offset + length > self.size:
            raise Malformed("it ends in the middle")
        if length > PAGE:
            return self._fetch(offset, length)
        number, inside = divmod(offset, PAGE)
        found = self._page(number)[inside : inside + length]
        return found if len(found) == length else found + self._page(number + 1)[: length - len(found)]

    def head(self, length: int) -> bytes:
        return self.at(0, min(length, self.size))

    def number(self, offset: int, kind: str) -> int:
        """A number in the notation of `struct`, little-endian."""
        (found,) = struct.unpack("<" + kind, self.at(offset, struct.calcsize("<" + kind)))
        return int(found)

    def _page(self, number: int) -> bytes:
        if (page := self._pages.get(number)) is None:
            page = self._fetch(number * PAGE, min(PAGE, self.size - number * PAGE))
            while len(self._pages) > 1:
                self._pages.pop(next(iter(self._pages)))
            self._pages[number] = page
        return page

    def _fetch(self, offset: int, length: int) -> bytes:
        self._left -= length
        if self._left < 0:
            raise Malformed("it is too large to be checked")
        found = self._read(self.name, offset, length)
        if len(found) != length:
            raise Malformed("it is shorter than the version says")
        return found


class ContentFile(io.RawIOBase):
    """A content as a file, for what wants one."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._content.size}[whence]
        if start + offset < 0:
            raise ValueError("before the beginning")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._content.size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        found = self._content.at(self._position, length) if length else b""
        self._position += length
        return found
