"""Bytes on their way to a data worker: taken in whole before a worker is asked for, so that who sends slowly keeps none from
others. They wait in memory while there is room, and else sealed in a file without a name, under a key that nobody else has."""

import os
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from falaj.base.errors import OutOfSpace, TooLarge
from falaj.base.values import value
from falaj.keys.sealing import new_key

IN_MEMORY: Final = 256 << 20  # of all that are under way together
LARGEST: Final = 2 << 30  # one of them
RESERVE: Final = 64 << 20  # of the disk, for those who make room
_BLOCK: Final = 1 << 20
_LENGTH: Final = struct.Struct(">I")
_NONCE: Final = struct.Struct(">4xQ")


@value
class SpoolBounds:
    memory: int = IN_MEMORY
    largest: int = LARGEST
    reserve: int = RESERVE


class Spools:
    """Thread-safe. `folder` is where what has no room in memory lies, sealed."""

    def __init__(self, folder: Path | None, bounds: SpoolBounds | None = None) -> None:
        self._folder, self._bounds = folder, bounds or SpoolBounds()
        self._lock = threading.Lock()
        self._held = 0

    @contextmanager
    def whole(self, chunks: Iterable[bytes]) -> Iterator[Iterator[bytes]]:
        """The same chunks, once all of them are there; read once. Raises `TooLarge`, `OutOfSpace`, and what they raise."""
        spool, size = _Spool(self), 0
        try:
            for chunk in chunks:
                size += len(chunk)
                if size > self._bounds.largest:
                    raise TooLarge(f"A piece has at most {self._bounds.largest >> 30} GiB: send it in smaller ones.")
                spool.add(chunk)
            yield spool.chunks()
        finally:
            spool.close()

    def reserved(self, size: int) -> bool:
        """Whether there is room in memory for so many bytes more, which are held then."""
        with self._lock:
            fits = self._held + size <= self._bounds.memory
            self._held += size if fits else 0
            return fits

    def release(self, size: int) -> None:
        with self._lock:
            self._held -= size

    def sealed_file(self) -> "_SealedFile":
        return _SealedFile(tempfile.TemporaryFile(dir=self._folder), self._bounds.reserve)


class _Spool:
    """The first of them in memory, and from the first that has no room there on all in a file."""

    def __init__(self, spools: Spools) -> None:
        self._spools = spools
        self._waiting: deque[bytes] = deque()
        self._file: _SealedFile | None = None

    def add(self, chunk: bytes) -> None:
        if self._file is None and self._spools.reserved(len(chunk)):
            self._waiting.append(chunk)
            return
        if self._file is None:
            self._file = self._spools.sealed_file()
        self._file.add(chunk)

    def chunks(self) -> Iterator[bytes]:
        while self._waiting:
            chunk = self._waiting.popleft()
            self._spools.release(len(chunk))
            yield chunk
        if self._file is not None:
            yield from self._file.chunks()

    def close(self) -> None:
        self._spools.release(sum(map(len, self._waiting)))
        self._waiting.clear()
        if self._file is not None:
            self._file.close()


class _SealedFile:
    """Blocks, each sealed under its number: the key is in this memory alone, and the file has no name."""

    def __init__(self, file: IO[bytes], reserve: int) -> None:
        self._file, self._reserve = file, reserve
        self._cipher = AESGCM(new_key())
        self._blocks = 0
        self._gathered: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._gathered.append(chunk)
        self._size += len(chunk)
        if self._size >= _BLOCK:
            self._write()

    def chunks(self) -> Iterator[bytes]:
        self._write()
        self._file.seek(0)
        for number in range(self._blocks):
            (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            yield self._cipher.decrypt(_NONCE.pack(number), self._file.read(length), None)

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        if not self._gathered:
            return
        sealed = self._cipher.encrypt(_NONCE.pack(self._blocks), b"".join(self._gathered), None)
        self._gathered, self._size = [], 0
        self._refuse_full_disk(len(sealed))
        try:
            self._file.write(_LENGTH.pack(len(sealed)) + sealed)
        except OSError:
            raise self._full() from None
        self._blocks += 1

    def _refuse_full_disk(self, size: int) -> None:
        disk = os.fstatvfs(self._file.fileno())
        if disk.f_bavail * disk.f_frsize < self._reserve + size:
            raise self._full()

    def _full(self) -> OutOfSpace:
        return OutOfSpace("There is no room on the disk for these bytes; send them again later.", delay=30)
