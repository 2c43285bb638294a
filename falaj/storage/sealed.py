"""Sealing: AES-256-GCM in chunks, so that any part of an object can be read, and trusted, alone.

An object is a header and its chunks, each with its tag. The nonce is the chunk's index; the object's id, the index and whether
the chunk is the last are authenticated with it. So no chunk passes for another one, of this object or of any other, and the end
cannot be moved.
"""

import struct
from collections.abc import Callable, Iterable, Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from falaj.keys.sealing import TAG_SIZE
from falaj.storage.blobs import Blobs, Stored, checked
from falaj.storage.chunks import CHUNK, Buffer, cut, with_last
from falaj.storage.errors import Altered

HEADER = b"falaj sealed \x00\x01\n"  # 16 bytes; the number is the format's version, which fixes the size of a chunk
SEALED_CHUNK = CHUNK + TAG_SIZE


class Sealed:
    """`Blobs` that seals what it puts into another store. `key_of` gives every object a key of its own, for nothing else."""

    def __init__(self, blobs: Blobs, key_of: Callable[[str], bytes]) -> None:
        self._blobs = blobs
        self._key_of = key_of

    def put(self, object_id: str, chunks: Iterable[Buffer]) -> int:
        """Store the chunks sealed; the size of what was sealed."""
        cipher, size = AESGCM(self._key_of(checked(object_id))), 0

        def sealed() -> Iterator[bytes]:
            nonlocal size
            size = 0
            yield HEADER
            for index, (chunk, last) in enumerate(with_last(cut(iter(chunks), CHUNK))):
                size += len(chunk)
                yield cipher.encrypt(_nonce(index), chunk, _bound(object_id, index, last))

        self._blobs.put(object_id, sealed())
        return size

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        size = self.size(object_id)
        return unsealed(self._blobs, object_id, self._key_of(object_id), size=size, offset=offset, length=length)

    def size(self, object_id: str) -> int:
        return opened_size(self._blobs.size(object_id))

    def delete(self, object_id: str) -> None:
        self._blobs.delete(object_id)

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        return self._blobs.list(after, limit)

    def probe(self) -> None:
        self._blobs.probe()


def unsealed(blobs: Blobs, object_id: str, key: bytes, *, size: int, offset: int, length: int) -> Iterator[bytes]:
    """Bytes `offset` to `offset + length` of an object whose plaintext has `size` bytes; only the chunks with them are read."""
    end = min(offset + length, size)
    if offset < 0 or (offset >= end and size > 0):
        return
    cipher = AESGCM(key)
    first, final = offset // CHUNK, max(size - 1, 0) // CHUNK
    stop = max(end - 1, 0) // CHUNK
    for index, chunk in enumerate(_sealed_chunks(blobs, object_id, first, stop, size), start=first):
        try:
            plain = cipher.decrypt(_nonce(index), chunk, _bound(object_id, index, index == final))
        except InvalidTag:
            raise Altered(f"The stored object {object_id} is not what was stored: its part {index} was changed.") from None
        begins = index * CHUNK
        if begins < offset or begins + len(plain) > end:
            plain = plain[max(offset - begins, 0) : end - begins]
        if plain:
            yield plain


def sealed_size(size: int) -> int:
    """How large an object is whose plaintext has `size` bytes."""
    return len(HEADER) + size + TAG_SIZE * max(-(-size // CHUNK), 1)


def opened_size(size: int) -> int:
    """How large the plaintext is of an object of `size` bytes."""
    body = size - len(HEADER)
    opened = body - TAG_SIZE * -(-body // SEALED_CHUNK)
    if opened < 0 or sealed_size(opened) != size:
        raise Altered("A stored object has a size that no sealed object has: it was cut or extended.")
    return opened


def _sealed_chunks(blobs: Blobs, object_id: str, first: int, stop: int, size: int) -> Iterator[Buffer]:
    """The sealed chunks from `first` to `stop`, both included. Where they reach the object's end, it must be the end."""
    begin = len(HEADER) + first * SEALED_CHUNK if first else 0
    end = min(len(HEADER) + (stop + 1) * SEALED_CHUNK, sealed_size(size))
    beyond = 1 if end == sealed_size(size) else 0
    stored = blobs.read(object_id, begin, end - begin + beyond)
    pieces = stored if first else _without_header(stored, object_id)
    wanted = end - max(begin, len(HEADER))
    for chunk in cut(pieces, SEALED_CHUNK):
        wanted -= len(chunk)
        if wanted < 0 or (len(chunk) < SEALED_CHUNK and wanted > 0):
            break
        yield chunk
    if wanted != 0:
        raise Altered(f"The stored object {object_id} is not what was stored: it was cut or extended.")


def _without_header(pieces: Iterator[bytes], object_id: str) -> Iterator[Buffer]:
    head = b""
    while len(head) < len(HEADER) and (piece := next(pieces, b"")):
        head += piece
    if not head.startswith(HEADER):
        raise Altered(f"The stored object {object_id} does not begin like a sealed object of this version.")
    yield memoryview(head)[len(HEADER) :]
    yield from pieces


def _nonce(index: int) -> bytes:
    return index.to_bytes(12)


def _bound(object_id: str, index: int, last: bool) -> bytes:
    return HEADER + bytes.fromhex(object_id) + struct.pack(">Q?", index, last)
