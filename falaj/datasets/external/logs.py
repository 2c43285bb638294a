"""What a table says of itself in files of its own: fetched into memory, and read by a data worker inside walls."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Any, Final

from falaj.base.errors import TooLarge
from falaj.datasets.workers import DataWorkers, WorkerFailed
from falaj.storage.upstream import Entry, Objects

_MOST: Final = 512 << 20
_SECONDS: Final = 120.0


class Log:
    def __init__(self, workers: DataWorkers, objects: Objects) -> None:
        self._workers = workers
        self._objects = objects

    def told(self, order: str, files: Sequence[Sequence[Entry]], **about: Any) -> dict[str, Any]:
        """What a worker makes of these files, each of which may be several in a row. Believe nothing of it."""
        if sum(entry.size for row in files for entry in row) > _MOST:
            raise TooLarge(f"The table says more than {_MOST >> 20} MiB about itself: tidy it up there, with a new checkpoint.")
        with ExitStack() as stack:
            opened = [stack.enter_context(self._gathered(row)) for row in files]
            return self._workers.do({"order": order, **about}, [file.fileno() for file in opened], seconds=_SECONDS)

    def _gathered(self, entries: Sequence[Entry]) -> IO[bytes]:
        """In memory, never on a disk."""
        file = os.fdopen(os.memfd_create("table", os.MFD_CLOEXEC), "w+b")
        try:
            for entry in entries:
                taken = 0
                for chunk in self._objects.read(entry):
                    taken += len(chunk)
                    if taken > entry.size:
                        raise TooLarge(f"{entry.path!r} is larger than it says.")
                    file.write(chunk)
                if len(entries) > 1:
                    file.write(b"\n")
            file.flush()
            return file
        except BaseException:
            file.close()
            raise


def nonsense() -> WorkerFailed:
    return WorkerFailed("The data worker said something that cannot be. What it read may be hostile.")
