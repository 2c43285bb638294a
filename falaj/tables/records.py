"""Cutting text into blocks of whole records, so that what is wrong can be looked at again with the block at hand.

Needs no data library: whoever sends a large file in pieces cuts it here, too.
"""

import csv
import io
from collections.abc import Iterator
from typing import Final

import numpy as np

from falaj.base.errors import Invalid

BLOCK: Final = 8 << 20
LONGEST: Final = 32 << 20
_COUNTED: Final = 256 << 10  # bytes at a time, which stay near the processor


def blocks(
    chunks: Iterator[bytes], *, quote: str = "", delimiter: str = ",", size: int = BLOCK, first: int = 0, first_line: int = 1
) -> Iterator[bytes]:
    """Of whole records, `size` bytes or little more each; the `first` may be smaller. With `quote`, a line's end between quotes
    does not end a record. Raises `Invalid` where a record has more than `LONGEST` bytes, naming the line it begins at."""
    waiting: list[bytes] = []
    length, wanted, line = 0, first or size, first_line
    for chunk in chunks:
        waiting.append(chunk)
        length += len(chunk)
        if length < wanted:
            continue
        block, rest = _cut(waiting, quote, delimiter)
        if block:
            yield block
            line += lines_in(block)
            waiting, length, wanted = [rest], len(rest), size
        elif length > LONGEST:
            raise Invalid(
                f"The record that begins at line {line} has more than {LONGEST >> 20} MiB. "
                + ("A quote that is never closed? " if quote and quote.encode() in rest else "")
                + "Records are lines: check the format and the line ends."
            )
        else:
            waiting, wanted = [rest], min(2 * length, LONGEST + 1)
    if length:
        yield b"".join(waiting)


def _cut(waiting: list[bytes], quote: str, delimiter: str) -> tuple[bytes, bytes]:
    """The whole records of what waits, and the rest. The last chunk usually tells, and then no byte is copied twice."""
    *before, last = waiting
    sign = quote.encode()
    if end := _last_end(last, sign, sum(_count(chunk, sign) for chunk in before) if sign else 0):
        return b"".join([*before, memoryview(last)[:end]]), last[end:]
    whole = b"".join(waiting)
    end = end_of_records(whole, quote=quote, delimiter=delimiter)
    return whole[:end], whole[end:]


def _last_end(chunk: bytes, sign: bytes, open_quotes: int) -> int:
    """Where the last whole record ends that ends within a chunk; 0 where that is not told by it alone."""
    end = chunk.rfind(b"\n") + 1
    open_quotes += _count(chunk[:end], sign) if sign else 0
    while end and open_quotes % 2:
        before = chunk.rfind(b"\n", 0, end - 1) + 1
        open_quotes -= chunk.count(sign, before, end)
        end = before
    return end


def end_of_records(block: bytes, *, quote: str = "", delimiter: str = ",") -> int:
    """Where the last whole record of a block ends; 0 where none does. A block begins with a record."""
    newline = b"\n" if b"\n" in block or b"\r" not in block[:-1] else b"\r"
    end = block.rfind(newline) + 1
    sign = quote.encode()
    if not sign or not end or sign not in block:
        return end
    # Quotes come in pairs: after an even number of them nothing is open.
    open_quotes = block.count(sign, 0, end)
    while end and open_quotes % 2:
        before = block.rfind(newline, 0, end - 1) + 1
        open_quotes -= block.count(sign, before, end)
        end = before
    return end or _by_reading(block, quote, delimiter)


def first_record(block: bytes, quote: str, *, beyond: int = 0) -> int:
    """Where the first record ends that goes `beyond` so many bytes; the length of the block where none does."""
    newline = b"\n" if b"\n" in block or b"\r" not in block[:-1] else b"\r"
    sign, end, open_quotes = quote.encode(), 0, 0
    while True:
        after = block.find(newline, max(end, beyond)) + 1
        if not after:
            return len(block)
        open_quotes += block.count(sign, end, after) if sign else 0
        end = after
        if not open_quotes % 2:
            return end


def lines_in(block: bytes) -> int:
    return _count(block, b"\n" if b"\n" in block else b"\r")


def _count(block: bytes, sign: bytes) -> int:
    if len(block) < _COUNTED or len(sign) > 1:
        return block.count(sign)
    signs = np.frombuffer(block, np.uint8)
    return sum(int(np.count_nonzero(signs[at : at + _COUNTED] == sign[0])) for at in range(0, len(signs), _COUNTED))


def _by_reading(block: bytes, quote: str, delimiter: str) -> int:
    """A quote in the middle of a field opens nothing, which only reading tells; the last record may not be whole."""
    read = last = before = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for line in io.StringIO(block.decode("latin-1"), newline=""):
            read += len(line)
            yield line

    csv.field_size_limit(LONGEST * 2)
    for _ in csv.reader(lines(), delimiter=delimiter, quotechar=quote):
        before, last = last, read
    return before
