"""What the drivers' errors mean to the rest of the platform."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from falaj.base.errors import Conflict, OutOfSpace, Unavailable

POSTGRES_DISK_FULL = "53100"
PROBE = bytes(64 * 1024)


@contextmanager
def translated(file: Path | None = None) -> Iterator[None]:
    """Turn driver errors into Falaj's; what is neither fullness, absence nor conflict is a bug and passes through.

    `file` is where SQLite keeps the database.
    """
    try:
        yield
    except IntegrityError as error:
        raise Conflict("Another request changed the same thing at the same moment; look at it again.") from error
    except PoolTimeout as error:
        raise Unavailable("The database is busy; try again shortly.") from error
    except DBAPIError as error:
        text = str(error.orig).lower()
        if _says_full(error, file):
            raise OutOfSpace("The disk of the database is full; free some space. Reading goes on.", delay=5) from error
        if isinstance(error, OperationalError) or error.connection_invalidated:
            raise Unavailable(
                f"The database does not answer: {text.splitlines()[0] if text else 'no reason given'}", delay=2
            ) from error
        raise


def _says_full(error: DBAPIError, file: Path | None) -> bool:
    sqlite, postgres = (getattr(error.orig, name, None) or "" for name in ("sqlite_errorname", "sqlstate"))
    if sqlite == "SQLITE_FULL" or postgres == POSTGRES_DISK_FULL or "no space left" in str(error.orig).lower():
        return True
    return sqlite.startswith("SQLITE_IOERR") and file is not None and not _may_grow(file)


def _may_grow(file: Path) -> bool:
    """Whether there is room behind the file. SQLite calls a quota, a limit on files and a dying disk the same I/O error."""
    try:
        size = max((part.stat().st_size for part in file.parent.glob(f"{file.name}*")), default=0)
        with tempfile.TemporaryFile(dir=file.parent) as probe:
            return os.pwrite(probe.fileno(), PROBE, size) == len(PROBE)
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
