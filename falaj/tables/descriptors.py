"""A file behind a descriptor, read at a place of our own: whoever else has a copy of the descriptor moves nothing."""

import io
import os


class Descriptor(io.RawIOBase):
    """Leaves the descriptor open. Read and not mapped: where addresses are bounded a large file has room, and one that shrinks
    ends nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0
        self._size = os.fstat(descriptor).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces, wanted = [], self._size - self._at if size < 0 else size
        while wanted > 0 and (piece := os.pread(self._descriptor, wanted, self._at)):
            pieces.append(piece)
            self._at += len(piece)
            wanted -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at
