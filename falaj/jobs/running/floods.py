"""A job that writes more than anybody can keep: how fast it may."""

import selectors
import time
from typing import Final

from falaj.jobs.running.limits import MIB

_PER_SECOND: Final = 16 * MIB  # so much of a flooded log is still read; the job waits for the rest of the second


class Flood:
    """Lets a log that is flooded be read only so fast."""

    def __init__(self) -> None:
        self._allowance = _PER_SECOND
        self._since = time.monotonic()
        self._listens = True

    def count(self, size: int) -> None:
        self._allowance -= size

    def pace(self, selector: selectors.BaseSelector, output: int, now: float, is_flooded: bool) -> None:
        if now - self._since >= 0.1:
            gained = int((now - self._since) * _PER_SECOND)
            self._allowance, self._since = min(_PER_SECOND, self._allowance + gained), now
        listens = self._allowance > 0 or not is_flooded
        if listens and not self._listens:
            selector.register(output, selectors.EVENT_READ)
        elif self._listens and not listens:
            selector.unregister(output)
        self._listens = listens
