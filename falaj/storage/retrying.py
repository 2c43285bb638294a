"""Trying again, written once for every store."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from falaj.base.errors import OutOfSpace, TemporaryError
from falaj.storage.blobs import Blobs, Stored

T = TypeVar("T")
ATTEMPTS = 4
REMEMBERED = 32 << 20


class Retrying:
    """`Blobs` that tries again after a `TemporaryError`, waiting as long as the error says, twice as long each time.

    An iterator is consumed once: a `put` is repeated as long as what it consumed fits into `remembered` bytes, and passes the
    error on after that. A `read` goes on where it broke off. A full disk is not waited for.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        attempts: int = ATTEMPTS,
        remembered: int = REMEMBERED,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._blobs = blobs
        self._attempts = attempts
        self._remembered = remembered
        self._wait = wait

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        remembering = _Remembering(chunks, self._remembered)
        return self._repeated(lambda: self._blobs.put(object_id, remembering.replay()), lambda: remembering.complete)

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        failures = 0
        while True:
            try:
                for piece in self._blobs.read(object_id, offset, length):
                    offset, length, failures = offset + len(piece), length - len(piece), 0
                    yield piece
                return
            except TemporaryError as error:
                failures += 1
                if failures >= self._attempts:
                    raise
                self._wait(error.delay * 2 ** (failures - 1))

    def size(self, object_id: str) -> int:
        return self._repeated(lambda: self._blobs.size(object_id))

    def delete(self, object_id: str) -> None:
        self._repeated(lambda: self._blobs.delete(object_id))

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        return self._repeated(lambda: self._blobs.list(after, limit))

    def probe(self) -> None:
        self._blobs.probe()  # who asks wants to know how it is now

    def _repeated(self, call: Callable[[], T], repeatable: Callable[[], bool] = lambda: True) -> T:
        for attempt in range(self._attempts - 1):
            try:
                return call()
            except OutOfSpace:
                raise
            except TemporaryError as error:
                if not repeatable():
                    raise
                self._wait(error.delay * 2**attempt)
        return call()


class _Remembering:
    """Chunks that can be gone through again while all that was taken is remembered."""

    def __init__(self, chunks: Iterator[bytes], most: int) -> None:
        self._chunks = chunks
        self._most = most
        self._taken: list[bytes] = []
        self._size = 0
        self._failure: BaseException | None = None

    @property
    def complete(self) -> bool:
        """Whether a repetition would send the same bytes: nothing was forgotten, and it was not the chunks that failed."""
        return self._size <= self._most and self._failure is None

    def replay(self) -> Iterator[bytes]:
        yield from self._taken
        try:
            for chunk in self._chunks:
                self._size += len(chunk)
                if self._size <= self._most:
                    self._taken.append(chunk)
                else:
                    self._taken.clear()
                yield chunk
        except Exception as error:
            self._failure = error
            raise
