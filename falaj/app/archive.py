"""The inside of a backup: a plain tar stream, made and read chunk by chunk, so that it is never on disk unsealed."""

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from falaj.base.errors import Corrupt


def member(name: str, size: int, content: Iterable[bytes]) -> Iterator[bytes]:
    """One file of the archive; `content` must be exactly `size` bytes."""
    info = tarfile.TarInfo(name)
    info.size = size
    yield info.tobuf(format=tarfile.PAX_FORMAT)
    written = 0
    for chunk in content:
        written += len(chunk)
        yield chunk
    if written != size:
        raise Corrupt(f"{name} has {written} bytes where {size} were expected.")
    yield bytes(-size % tarfile.BLOCKSIZE)


def ending() -> bytes:
    return bytes(2 * tarfile.BLOCKSIZE)


def members(chunks: Iterator[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Walk an archive; each file's content is readable until the next is asked for."""
    with tarfile.open(fileobj=io.BufferedReader(_Reader(chunks)), mode="r|") as archive:
        for info in archive:
            content = archive.extractfile(info)
            if content is None:
                raise Corrupt(f"A backup holds files only, and {info.name!r} is none.")
            yield info.name, content
    for _ in chunks:  # to the very end, so that what was changed or cut there is noticed too
        pass


class _Reader(io.RawIOBase):
    """An iterator of bytes as a readable file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
