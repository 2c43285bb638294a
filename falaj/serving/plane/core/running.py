"""Whose model runs now, told to the supervisor through shared memory: whoever dies or hangs in a run leaves its name behind."""

import threading
import time

from falaj.serving.plane.marks import SINCE, THREAD, THREADS, Mark


class Running:
    """`numbers` stand for revisions. Runs on the loop never overlap and are marked by who runs them; runs in threads may,
    and the one that began first is shown, after those that are being loaded."""

    def __init__(self, mark: Mark | None) -> None:
        self.numbers: memoryview | list[int] = mark.numbers if mark is not None else [0, 0, 0, 0, 0]
        self._threads: dict[int, tuple[int, int]] = {}  # by thread: the revision and since when
        self._accused = 0
        self._lock = threading.Lock()

    def enter_thread(self, number: int) -> None:
        with self._lock:
            self._threads[threading.get_ident()] = number, time.monotonic_ns()
            self._show()

    def enter_loading(self, number: int) -> None:
        """Since 0: how long a load may take is decided elsewhere. A crash in it is told by that."""
        with self._lock:
            self._threads[threading.get_ident()] = number, 0
            self._show()

    def leave_thread(self) -> None:
        with self._lock:
            del self._threads[threading.get_ident()]
            self._show()

    def accuse(self, number: int) -> None:
        """Shown from now on as running for ever, whatever else runs: the supervisor ends such a worker and knows why."""
        with self._lock:
            self._accused = number
            self._show()

    def _show(self) -> None:
        if self._accused:
            self.numbers[THREAD], self.numbers[SINCE] = self._accused, 1
            return
        number, since = min(self._threads.values(), key=lambda one: one[1], default=(0, 0))
        self.numbers[THREAD], self.numbers[SINCE], self.numbers[THREADS] = number, since, len(self._threads)
