"""Hearing that the job should give back its place, and leaving in the way that jobs expect."""

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any, Final, Self

_LOG: Final = logging.getLogger("falaj.training")

GAVE_BACK: Final = (
    128 + signal.SIGTERM
)  # as if the signal had ended it; a job that was told to stop is requeued whatever it says


class Preemption:
    """Catches SIGTERM once: `asked` turns true, and the loop has the job's grace to save and leave. A second one ends it.

    A program's main thread alone hears signals. In another one, where some launchers run a training, it says so and goes on
    without: what was saved last is what a job that has to go begins with again.
    """

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._before: Any = None
        self._hears = False

    @property
    def asked(self) -> bool:
        return self._asked_at is not None

    @property
    def seconds_ago(self) -> float:
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            _LOG.warning(
                "This training does not run in its program's main thread and hears no SIGTERM: it does not save before it has "
                "to go. Save more often, or train in the main thread."
            )
            return self
        self._before, self._hears = signal.signal(signal.SIGTERM, self._hear), True
        return self

    def __exit__(self, *_: object) -> None:
        if not self._hears:
            return
        self._hears = False
        signal.signal(signal.SIGTERM, self._before if self._before is not None else signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked_at = time.monotonic()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
