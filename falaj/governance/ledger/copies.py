"""Copies of the signed heads outside the database: who rewrites the database alone is found out by them.

One JSON line per head, appended and synced. Other directories may lie on other disks, or on media that only append.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from falaj.base.encoding import canonical
from falaj.base.errors import Corrupt, FalajError
from falaj.base.failpoints import failpoint
from falaj.base.files import full_disk_told, sync_directory
from falaj.governance.ledger.heads import Head, read_head

FILE = "heads.jsonl"
BATCH = 1000
LONGEST_LINE = 4096

HeadsBeyond: TypeAlias = Callable[[int, int], list[Head]]  # (size, limit) -> the heads over more leaves, by size
StoredHead: TypeAlias = Callable[[int], Head | None]  # size -> the head over just so many leaves


class HeadCopies:
    """The copies in one or more directories. Safe to use from several threads and processes."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.files = [directory / FILE for directory in directories]

    def catch_up(self, heads_beyond: HeadsBeyond, stored: StoredHead) -> int:
        """Append every head that a copy lacks, also those that a crash kept from it; how many lines were written.

        A copy whose last head the database does not have is left as it is: it is the evidence that the database went back.
        """
        written, failures = 0, []
        for file in self.files:
            try:
                written += self._catch_up(file, heads_beyond, stored)
            except (OSError, FalajError) as error:  # the other copies are worth the more
                failures.append(error)
        if failures:
            raise failures[0]
        return written

    def _catch_up(self, file: Path, heads_beyond: HeadsBeyond, stored: StoredHead) -> int:
        written = 0
        with full_disk_told(file), _opened(file) as stream:
            last = _last_head(file, stream)
            if last is not None and stored(last.size) != last:
                raise Corrupt(
                    f"{file} ends with a head of {last.size} leaves signed at {last.at} that the database does not have: the"
                    " ledger was rolled back or replaced. Run a verification; if an older backup was restored on purpose,"
                    " keep this file elsewhere and remove it here."
                )
            size = last.size if last else 0
            while missing := heads_beyond(size, BATCH):
                stream.write(b"".join(canonical(head.document()) + b"\n" for head in missing))
                stream.flush()
                failpoint("ledger.copy-written")
                os.fsync(stream.fileno())
                size, written = missing[-1].size, written + len(missing)
        return written


def read_copy(file: Path) -> Iterator[Head | None]:
    """The heads of a copy in the order of its lines; None for a line that is no head. A torn last line is not one yet."""
    if not file.exists():
        return
    with file.open("rb") as stream:
        while line := stream.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                return
            try:
                yield read_head(line)
            except ValueError:
                yield None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """The file to append to, locked, and freed of a line that a crash cut short."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = not file.exists()
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if new:
            sync_directory(file.parent)
        end = stream.seek(0, os.SEEK_END)
        tail = _tail(stream, end)
        if not tail.endswith(b"\n") and tail:
            stream.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
        stream.seek(0, os.SEEK_END)
        yield stream


def _last_head(file: Path, stream: BinaryIO) -> Head | None:
    end = stream.seek(0, os.SEEK_END)
    lines = _tail(stream, end).splitlines()
    if not lines:
        return None
    try:
        return read_head(lines[-1])
    except ValueError as error:
        raise Corrupt(f"The last line of {file} is not a head: somebody altered it. Run a verification.") from error


def _tail(stream: BinaryIO, end: int) -> bytes:
    stream.seek(max(0, end - LONGEST_LINE))
    return stream.read(LONGEST_LINE)
