"""Files sealed with AES-256-GCM in chunks: written as a stream, read from anywhere, never plain on the disk.

A file has a key of its own, derived from a salt in its header. The nonce is the chunk's index; the header, what the file is,
the index and whether the chunk is the last are authenticated with it: no chunk passes for another, and the end cannot move.
`storage.sealed` does the same for the platform's blobs; trainings run where that room is not.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from falaj.base.files import full_disk_told
from falaj.keys.sealing import TAG_SIZE, derive
from falaj.training.checkpoints.errors import Damaged

Buffer: TypeAlias = bytes | bytearray | memoryview

CHUNK: Final = 1 << 20
_MAGIC: Final = b"falaj training\x00\x01"  # the last byte is the format's version, which fixes the size of a chunk
_SALT: Final = 32
_HEADER: Final = len(_MAGIC) + _SALT
_SEALED_CHUNK: Final = CHUNK + TAG_SIZE


class SealedFile:
    """A new file that takes bytes in any portions. Durable, and `size` and `digest` known, once it was closed without an error.

    `digest` is over the tags of all chunks: as telling as one over the content, and sixty thousand times less to hash.
    """

    def __init__(self, file: Path, key: bytes, about: str) -> None:
        salt = os.urandom(_SALT)
        self._file, self._about, self._header = file, about.encode(), _MAGIC + salt
        self._cipher = AESGCM(derive(key, b"falaj checkpoint file " + salt))
        self._gathered, self._filled, self._index = bytearray(CHUNK), 0, 0
        self._tags = hashlib.sha256(self._header)
        self.size = 0  # of the plaintext
        with full_disk_told(file):
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._put(self._header)

    @property
    def digest(self) -> str:
        return self._tags.hexdigest()

    def write(self, content: Buffer) -> None:
        view, at = memoryview(content).cast("B"), 0
        self.size += len(view)
        while at < len(view):
            if self._filled == CHUNK:  # the last chunk is sealed when it is known to be the last
                self._seal(last=False)
            part = view[at : at + CHUNK - self._filled]
            self._gathered[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            at += len(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                with full_disk_told(self._file):
                    self._seal(last=True)
                    os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _seal(self, *, last: bool) -> None:
        bound = _bound(self._header, self._about, self._index, last)
        sealed = self._cipher.encrypt(self._index.to_bytes(12), memoryview(self._gathered)[: self._filled], bound)
        with full_disk_told(self._file):
            self._put(sealed)
        self._tags.update(sealed[-TAG_SIZE:])
        self._index, self._filled = self._index + 1, 0

    def _put(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]


class OpenedFile:
    """A sealed file for reading. Whatever it gives was authenticated; anything else raises `Damaged`."""

    def __init__(self, file: Path, key: bytes, about: str) -> None:
        self._file, self._about = file, about.encode()
        try:
            self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise Damaged(f"{file.name} cannot be opened: {error.strerror}.") from None
        try:
            self._header = os.pread(self._descriptor, _HEADER, 0)
            body = os.fstat(self._descriptor).st_size - _HEADER
            self._chunks = max(-(-body // _SEALED_CHUNK), 1)
            self.size = body - TAG_SIZE * self._chunks
            if self._header[: len(_MAGIC)] != _MAGIC or self.size < 0:
                raise Damaged(f"{file.name} does not begin like a sealed file of a checkpoint, or was cut.")
        except BaseException:
            os.close(self._descriptor)
            raise
        self._cipher = AESGCM(derive(key, b"falaj checkpoint file " + self._header[len(_MAGIC) :]))
        self._held, self._plain = -1, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, length: int) -> bytearray:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise Damaged(f"{self._file.name} has {self.size} bytes; {length} from {offset} on were expected.")
        found, at = bytearray(length), 0
        while at < length:
            index, begin = divmod(offset + at, CHUNK)
            part = memoryview(self._chunk(index))[begin : begin + length - at]
            found[at : at + len(part)] = part
            at += len(part)
        return found

    def digest(self) -> str:
        """Of the whole file, every chunk of which was authenticated on the way."""
        tags = hashlib.sha256(self._header)
        for tag in self._verified():
            tags.update(tag)
        return tags.hexdigest()

    def _verified(self) -> Iterator[bytes]:
        for index in range(self._chunks):
            yield self._sealed_chunk(index)[-TAG_SIZE:]
            self._chunk(index)

    def _chunk(self, index: int) -> bytes:
        if index != self._held:
            bound = _bound(self._header, self._about, index, index == self._chunks - 1)
            try:
                self._plain = self._cipher.decrypt(index.to_bytes(12), self._sealed_chunk(index), bound)
            except InvalidTag:
                raise Damaged(f"{self._file.name} was changed in its part {index}, or sealed with another key.") from None
            self._held = index
        return self._plain

    def _sealed_chunk(self, index: int) -> bytes:
        try:
            return os.pread(self._descriptor, _SEALED_CHUNK, _HEADER + index * _SEALED_CHUNK)
        except OSError as error:
            raise Damaged(f"{self._file.name} cannot be read: {error.strerror}.") from None


def _bound(header: bytes, about: bytes, index: int, last: bool) -> bytes:
    return header + struct.pack(">Q?", index, last) + about
