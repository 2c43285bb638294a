"""A few data workers, started as they are needed and kept: an order waits for one that is free."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from falaj.base.errors import Unavailable
from falaj.datasets.working.processes import DataWorker

WAITS: Final = 120.0


class Pool:
    """Thread-safe. One that failed is closed, and another started when it is needed."""

    def __init__(self, start: Callable[[], DataWorker], most: int) -> None:
        self._start, self._most = start, most
        self._free: list[DataWorker] = []
        self._turns = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def worker(self) -> Iterator[DataWorker]:
        """Raises `Unavailable` where none is free for long, and whatever starting one raises."""
        if not self._turns.acquire(timeout=WAITS):
            raise Unavailable(f"All {self._most} data workers are at work: try again.", delay=10.0)
        try:
            used = self._waiting() or self._start()
            try:
                yield used
            finally:
                self._take_back(used)
        finally:
            self._turns.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._free = self._free, []
        for one in waiting:
            one.close()

    def _waiting(self) -> DataWorker | None:
        """One that ended while nobody looked is none."""
        while True:
            with self._lock:
                if not self._free:
                    return None
                found = self._free.pop()
            if found.is_alive:
                return found
            found.close()

    def _take_back(self, used: DataWorker) -> None:
        with self._lock:
            kept = used.is_well and not self._closed
            if kept:
                self._free.append(used)
        if not kept:
            used.close()
