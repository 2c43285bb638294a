"""Background work: one leased loop for all of it. A step does one bounded round; while it takes less than 20 seconds, two
holders never step at once."""

import logging
import threading
from collections.abc import Callable

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.leases import acquire, release
from falaj.database.work import Database, UnitOfWork

TERM = 30 * SECOND
LONGEST_PAUSE = 10.0  # seconds, of a loop that fails and would be called more often
log = logging.getLogger(__name__)


@value
class Loop:
    """`step` returns True when it left work undone and wants to be called again at once."""

    name: str
    every: float
    step: Callable[[], bool]


class LoopRunner:
    """Runs one loop in a thread while this process holds the loop's lease."""

    def __init__(self, loop: Loop, *, database: Database, clock: Clock, holder: str) -> None:
        self._loop = loop
        self._database = database
        self._clock = clock
        self._holder = holder
        self._renew_at = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"loop-{loop.name}", daemon=True)
        self.name = loop.name
        self.failure = ""
        self._failures = 0  # in a row

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the round under way, then let the lease go. A loop that was never started has nothing to end."""
        if self._thread.ident is None:
            return
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            again = False
            try:
                again = self._holds_lease() and self._loop.step()
                self.failure, self._failures = "", 0
            except FalajError as error:
                self._failed(str(error))
                log.warning("loop %s: %s", self._loop.name, error)
            except Exception as error:
                self._failed(type(error).__name__)
                log.exception("loop %s failed; it goes on with the next round", self._loop.name)
            if not again:
                self._stopping.wait(self._pause())
        try:
            self._database.write(lambda work: release(work, self._loop.name, self._holder))
        except FalajError as error:
            log.warning("loop %s could not release its lease: %s", self._loop.name, error)

    def _failed(self, why: str) -> None:
        self.failure = why
        self._failures += 1

    def _pause(self) -> float:
        """Longer with every failure in a row: what cannot be done now must not fill the log."""
        return max(self._loop.every, min(LONGEST_PAUSE, self._loop.every * 2.0 ** min(self._failures, 20)))

    def _holds_lease(self) -> bool:
        now = self._clock.now()
        if now < self._renew_at:
            return True

        def renew(work: UnitOfWork) -> bool:
            return acquire(work, self._loop.name, self._holder, now=now, duration=TERM) is not None

        held = self._database.write(renew)
        self._renew_at = now + TERM // 3 if held else 0
        return held
