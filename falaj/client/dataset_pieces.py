"""A file in pieces of whole rows, as a write takes them. Text is cut without a data library; others need one where they are
large."""

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import IO, Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.errors import LibraryMissing
from falaj.tables.forms import Form
from falaj.tables.records import blocks, first_record, lines_in

PIECE: Final = 64 << 20
FIRST: Final = 4 << 20  # piece, of text: it decides the columns, for which the others wait
WHOLE: Final = 256 << 20  # Parquet and Arrow files up to this size go as they are
_CHUNK: Final = 1 << 20
_LOOK: Final = 4096
_ENDINGS: Final = {
    "csv": "csv", "tsv": "csv", "txt": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
    "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "arrows": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip
_WIDE: Final = (  # the longer marks begin with the shorter ones
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@value
class PieceToSend:
    """`first_line` is the line of the file that it begins at. `end` is how far in the file it reaches, for those who watch."""

    number: int
    content: bytes
    first_line: int = 1
    end: int = 0

    @property
    def source(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def format_of(name: str, start: bytes) -> str:
    """By the file's ending, or else by its first bytes."""
    ending = name.lower().removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if start.lstrip().startswith(b"{") else "csv"


def cut(
    file: IO[bytes], form: Form, *, name: str = "", size: int | None = None, piece: int = PIECE
) -> tuple[Form, Iterator[PieceToSend]]:
    """What the pieces are, and the pieces: what is unpacked or decoded here is neither any more. `size` is the file's, where
    that is known; then it can be read from any place."""
    start = file.read(_LOOK)
    counted = _Counted(start, file)
    compression = form.compression or _compression_of(start)
    if compression == "gzip":
        unpacked = gzip.GzipFile(fileobj=counted, mode="rb")
        start, stream = _peeked(unpacked), unpacked
    else:
        stream = counted  # type: ignore[assignment]
    form = replace(form, format=form.format or format_of(name, start))
    if form.format in ("parquet", "arrow") or compression == "zstd":
        return _of_tables(file, counted, replace(form, compression=compression), size, piece)
    encoding = _wide_encoding(form, start)
    chunks = _chunks(stream, min(_CHUNK, piece))
    chunks = _decoded(chunks, encoding) if encoding else chunks
    form = replace(form, compression="none", encoding="utf-8" if encoding else form.encoding)
    return form, _of_text(chunks, counted, form, piece)


class _Counted(io.RawIOBase):
    """A file whose first bytes were looked at, and how far it was read."""

    def __init__(self, start: bytes, file: IO[bytes]) -> None:
        self._start, self._file, self.read_so_far = start, file, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start and size >= 0:
            data, self._start = self._start[:size], self._start[size:]
        else:
            data, self._start = self._start + self._file.read(size), b""
        self.read_so_far += len(data)
        return data


def _of_text(chunks: Iterator[bytes], file: _Counted, form: Form, size: int) -> Iterator[PieceToSend]:
    """Every piece of a CSV file begins with the header, so that it can be read by itself."""
    quote = form.quote if form.format == "csv" else ""
    header, line = b"", form.first_line
    cut_off = blocks(chunks, quote=quote, delimiter=form.delimiter or ",", size=size, first=min(FIRST, size), first_line=line)
    for number, block in enumerate(cut_off, 1):
        if number == 1 and form.format == "csv" and form.header:
            header = block[: first_record(block, quote)]
        repeated = header if number > 1 else b""
        first_line = max(1, line - lines_in(repeated))
        yield PieceToSend(number=number, content=repeated + block, first_line=first_line, end=file.read_so_far)
        line += lines_in(block)


def _of_tables(
    file: IO[bytes], counted: _Counted, form: Form, size: int | None, piece: int
) -> tuple[Form, Iterator[PieceToSend]]:
    """As it is where it is not too large; else as Arrow streams, which takes the data libraries."""
    if size is None or size <= WHOLE:
        content = counted.read(WHOLE) + counted.read(WHOLE)
        if len(content) <= WHOLE:
            return form, iter([PieceToSend(number=1, content=content, end=len(content))])
        size = None
    if form.compression != "none" or size is None:
        raise Invalid(
            f"More than {WHOLE >> 20} MiB of {form.format} cannot be sent packed or from standard input: unpack it to a file."
        )
    file.seek(0)
    outgoing = tables_library("falaj.tables.outgoing")
    reader = outgoing.parquet_batches(file) if form.format == "parquet" else outgoing.arrow_batches(file)
    streams = enumerate(outgoing.streams(reader, size=piece), 1)
    pieces = (PieceToSend(number=number, content=content, end=file.tell()) for number, content in streams)
    return replace(form, format="arrow"), pieces


def _compression_of(start: bytes) -> str:
    return "gzip" if start.startswith(b"\x1f\x8b") else "zstd" if start.startswith(b"\x28\xb5\x2f\xfd") else "none"


def _peeked(file: gzip.GzipFile) -> bytes:
    try:
        return file.peek(_LOOK)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid(f"The file cannot be unpacked: {error}. It was cut, or is something else.") from None


def _wide_encoding(form: Form, start: bytes) -> str:
    """Of a text whose line ends are more than a byte: such text is sent as UTF-8."""
    if form.encoding:
        plain = form.encoding.lower().replace("_", "").replace("-", "")
        return form.encoding if plain.startswith(("utf16", "utf32")) else ""
    return next((name for mark, name in _WIDE if start.startswith(mark)), "")


def _chunks(file: Any, size: int) -> Iterator[bytes]:
    try:
        while chunk := file.read(size):
            yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid(f"The file cannot be unpacked: {error}. It was cut, or is something else.") from None


def _decoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise Invalid(f"The file is not {encoding}: {error}. Say its encoding.") from None


def tables_library(module: str) -> Any:
    """A module that needs the data libraries, which are loaded when they are needed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise LibraryMissing(f"This needs a library that is not here: pip install {error.name}.") from None
