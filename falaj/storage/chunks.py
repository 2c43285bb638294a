"""Cutting a stream into equal chunks, and hashing it beside the work that is done on it. Copies are what costs here."""

import hashlib
import queue
import threading
from collections.abc import Iterator
from typing import TypeAlias

CHUNK = 1 << 20
AHEAD = 4  # chunks that hashing may lag behind

Buffer: TypeAlias = bytes | bytearray | memoryview


def cut(chunks: Iterator[Buffer] | Iterator[bytes], size: int) -> Iterator[Buffer]:
    """The same bytes in chunks of exactly `size`; the last may be shorter. A chunk that fits already passes uncopied."""
    gathered = bytearray()
    for chunk in chunks:
        if not gathered and len(chunk) == size:
            yield chunk
            continue
        view, at = memoryview(chunk), 0
        while len(gathered) + len(view) - at >= size:
            missing = size - len(gathered)
            if gathered:
                gathered += view[at : at + missing]
                yield gathered
                gathered = bytearray()
            else:
                yield view[at : at + missing]
            at += missing
        gathered += view[at:]
    if gathered:
        yield gathered


def with_last(chunks: Iterator[Buffer]) -> Iterator[tuple[Buffer, bool]]:
    """Each chunk and whether it is the last; an empty stream has one, empty, last chunk."""
    held: Buffer = next(chunks, b"")
    for chunk in chunks:
        yield held, False
        held = chunk
    yield held, True


class Hashing:
    """Passes chunks on and hashes them meanwhile: large ones in a second thread, for hashing is slower than sealing.

    Chunks must not be changed by whoever gets them. `digest` is known when the iteration is over.
    """

    def __init__(self, chunks: Iterator[Buffer], *, large: int = CHUNK) -> None:
        self._chunks = chunks
        self._large = large
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Buffer]:
        first = next(self._chunks, b"")
        if len(first) < self._large:
            self._hash.update(first)
            yield first
            for chunk in self._chunks:
                self._hash.update(chunk)
                yield chunk
        else:
            yield from self._beside(first)

    def _beside(self, first: Buffer) -> Iterator[Buffer]:
        waiting: queue.Queue[Buffer | None] = queue.Queue(AHEAD)
        thread = threading.Thread(target=self._work, args=(waiting,), name="hashing", daemon=True)
        thread.start()
        try:
            waiting.put(first)
            yield first
            for chunk in self._chunks:
                waiting.put(chunk)
                yield chunk
        finally:
            waiting.put(None)
            thread.join()

    def _work(self, waiting: "queue.Queue[Buffer | None]") -> None:
        while (chunk := waiting.get()) is not None:
            self._hash.update(chunk)
