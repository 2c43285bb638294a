"""Bytes on their way in: taken out of their compression and into UTF-8, piece by piece, and no more of them than may come."""

import codecs
import io
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa

from falaj.base.errors import Invalid, TooLarge

CHUNK: Final = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

Stream: TypeAlias = IO[bytes] | io.RawIOBase


class Peekable(io.RawIOBase):
    """A stream whose first bytes can be looked at before it is read."""

    def __init__(self, file: Stream) -> None:
        self._file, self._ahead = file, b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (more := self._file.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def readable(self) -> bool:
        return True

    def readinto(self, into: object) -> int:
        view = memoryview(into)  # type: ignore[arg-type]
        data = self._ahead[: len(view)] if self._ahead else self._file.read(len(view)) or b""
        self._ahead = self._ahead[len(data) :]
        view[: len(data)] = data
        return len(data)


def compression_of(start: bytes) -> str:
    return "gzip" if start.startswith(GZIP) else "zstd" if start.startswith(ZSTD) else "none"


def encoding_of(start: bytes) -> str:
    """By the mark that some programs write first; without one it is UTF-8, and what is not is refused as it comes."""
    return next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")


def decompressed(file: Stream, compression: str, most: int) -> Peekable:
    """Raises `TooLarge` from its reading, once more than `most` came out: a bomb is small outside."""
    if compression == "none":
        return Peekable(_Bounded(file, most, "bytes"))
    inner = _Gunzipped(file) if compression == "gzip" else pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression)
    return Peekable(_Bounded(inner, most, f"bytes of {compression}, decompressed"))


def as_utf8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """UTF-8 itself goes through unseen: whoever reads the columns checks it."""
    if encoding.lower() in ("utf-8", "utf8", "ascii"):
        yield from chunks
        return
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise Invalid(f"There is no encoding {encoding[:50]!r}: write it as utf-8, latin-1, cp1252 or utf-16.") from None
    line = 1
    try:
        for chunk in chunks:
            text = decoder.decode(chunk)
            line += text.count("\n")
            yield text.encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise Invalid(f"The source is not {encoding}: after line {line} {error}. Say its encoding.") from None


def chunks_of(file: Stream) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


class _Bounded(io.RawIOBase):
    """No more than so many bytes, and errors of compression with our words."""

    def __init__(self, file: Any, most: int, what: str) -> None:
        self._file, self._left, self._most, self._what = file, most, most, what

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self._file.read(CHUNK if size < 0 else min(size, CHUNK))
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise Invalid(f"The source cannot be decompressed: {str(error)[:200]}. It was cut, or is something else.") from None
        self._left -= len(data)
        if self._left < 0:
            raise TooLarge(f"The source has more than {self._most >> 20} MiB of {self._what}: send it in smaller pieces.")
        return data


class _Gunzipped(io.RawIOBase):
    """Every member, one after the other, as tools for logs write them."""

    def __init__(self, file: Stream) -> None:
        self._file, self._inflating = file, zlib.decompressobj(31)
        self._rest, self._began = b"", False

    def read(self, size: int = -1) -> bytes:
        while True:
            if self._inflating.eof:
                self._rest = (self._inflating.unused_data or self._file.read(CHUNK) or b"").lstrip(b"\0")
                self._inflating, self._began = zlib.decompressobj(31), False
            given = self._rest or self._file.read(CHUNK)
            if not given:
                if self._began:
                    raise EOFError("it ends in the middle")
                return b""
            self._began = True
            data = self._inflating.decompress(given, CHUNK if size < 0 else size)
            self._rest = self._inflating.unconsumed_tail
            if data:
                return data
