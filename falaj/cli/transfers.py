"""Bytes on their way to and from files, with a progress bar for whoever watches."""

import hashlib
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from falaj.base.errors import Corrupt, Invalid
from falaj.base.files import full_disk_told, sync_directory
from falaj.cli.deferred import Deferred

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress
else:
    rich_console, rich_progress = Deferred("rich.console"), Deferred("rich.progress")

CHUNK = 1 << 20
STANDARD = "-"  # standard input or output in place of a file


@contextmanager
def source(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """A file to read from, or standard input, and its size where that is known."""
    if file == STANDARD:
        yield sys.stdin.buffer, None
        return
    with open(file, "rb") as stream:
        regular = Path(file).is_file()
        yield stream, os.fstat(stream.fileno()).st_size if regular else None


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        yield chunk


def save(chunks: Iterable[bytes], file: str) -> int:
    """Write everything to a file or to standard output; how much it was. The file appears, or is replaced, only when whole."""
    if file == STANDARD:
        return sum(sys.stdout.buffer.write(chunk) for chunk in chunks)
    target = Path(file)
    if target.is_dir():
        raise Invalid(f"{file} is a directory; name the file to write.")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    with full_disk_told(target):
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
                written = sum(stream.write(chunk) for chunk in chunks)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(target)
        except BaseException:
            with suppress(FileNotFoundError):
                partial.unlink()
            raise
        sync_directory(target.parent)
    return written


def agreeing(chunks: Iterable[bytes], digest: str) -> Iterator[bytes]:
    """The same chunks; raises at their end when they are not what was stored."""
    seen = hashlib.sha256()
    for chunk in chunks:
        seen.update(chunk)
        yield chunk
    if seen.hexdigest() != digest:
        raise Corrupt("What arrived is not what was stored: the digests differ. Try again; if it stays so, run `falaj doctor`.")


def watched(chunks: Iterable[bytes], size: int | None, name: str) -> Iterator[bytes]:
    """The same chunks; on a terminal, a bar on standard error shows how far they are."""
    if not sys.stderr.isatty():
        yield from chunks
        return
    columns = (
        "{task.description}",
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=rich_console.Console(stderr=True, markup=False), transient=True) as progress:
        task = progress.add_task(name, total=size)
        for chunk in chunks:
            progress.advance(task, len(chunk))
            yield chunk
