"""What a job writes: kept in a folder of segments, each named by where in the stream it begins.

The first segment is kept for ever, and of the others the last ones: whoever floods its log loses the middle of it. Whoever
reads is told how much is missing. Nothing needs to be repaired after a kill, for segments only grow or go.
"""

import contextlib
from pathlib import Path
from typing import BinaryIO, Final

MIB: Final = 1 << 20
_SEGMENTS: Final = 8  # that a full log consists of: one at the head, the others at the tail
_DIGITS: Final = 16


class Log:
    """Writes; one at a time. A full one consists of so many `segments`: the first, and the last of the others."""

    def __init__(self, folder: Path, mib: int, segments: int = _SEGMENTS) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._most, self._size = segments, mib * MIB // segments  # of one segment; 0 where nothing bounds it
        self._segments = _segments(folder)
        self.length = 0
        if self._segments:
            self.length = self._segments[-1] + _named(folder, self._segments[-1]).stat().st_size
        self._file: BinaryIO | None = None
        self._room = 0

    @property
    def is_flooded(self) -> bool:
        """Whether something was dropped."""
        return len(self._segments) > 1 and self._segments[1] > self._size

    def write(self, data: bytes) -> None:
        while data:
            if self._file is None or (self._size and not self._room):
                self._next()
            part = data[: self._room] if self._size else data
            data = data[len(part) :]
            assert self._file is not None  # nosec B101 - for types
            self._file.write(part)
            self._room -= len(part)
            self.length += len(part)

    def say(self, line: str) -> None:
        """A line of our own."""
        self.write(f"falaj: {line}\n".encode())

    def last_line(self) -> str:
        """Of what was written so far."""
        text, _ = read(self._folder, max(0, self.length - 4000), 4000)
        lines = text.decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:500] if lines else ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next(self) -> None:
        self.close()
        self._file = open(_named(self._folder, self.length), "ab", buffering=0)  # noqa: SIM115 - it stays open
        self._room = self._size
        self._segments.append(self.length)
        while self._size and len(self._segments) > self._most:
            _named(self._folder, self._segments.pop(1)).unlink(missing_ok=True)


def read(folder: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """At most `limit` bytes from `offset` on, and where the next ones begin; a line in place of what was dropped is added."""
    found, at = [], max(0, offset)
    for start in _segments(folder):
        with contextlib.suppress(FileNotFoundError), open(_named(folder, start), "rb") as file:
            size = file.seek(0, 2)
            if start + size <= at:
                continue
            if start > at and limit > 0:
                found.append(dropped(start - at))
                at = start
            file.seek(at - start)
            part = file.read(min(limit, size - (at - start)))
            found.append(part)
            limit -= len(part)
            at += len(part)
        if limit <= 0:
            break
    return b"".join(found), at


def dropped(many: int) -> bytes:
    """What is read in place of so many bytes."""
    return f"\nfalaj: {many} bytes were dropped here: the log was larger than it may be\n".encode()


def segment_name(start: int) -> str:
    return f"{start:0{_DIGITS}d}"


def _named(folder: Path, start: int) -> Path:
    return folder / segment_name(start)


def _segments(folder: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
    except FileNotFoundError:
        return []
