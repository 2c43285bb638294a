"""Writing files so that they survive: whole or not at all, and still there after the power failed."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from falaj.base.errors import OutOfSpace


@contextmanager
def full_disk_told(place: Path) -> Iterator[None]:
    """A full disk or an exhausted quota is temporary: say so in Falaj's own words."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpace(f"The disk that holds {place} is full; free some space. Reading goes on.", delay=5) from error
        raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a renamed file may otherwise be gone after a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file's content atomically and durably."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    with full_disk_told(file):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.rename(file)
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        sync_directory(file.parent)
