"""When it is time for a checkpoint, and when to leave: the processes of one training agree on both."""

import time
from typing import Protocol

from falaj.training.checkpoints.preemption import Preemption
from falaj.training.checkpoints.workers import Agreement, Workers


class Busy(Protocol):
    @property
    def is_busy(self) -> bool: ...


class Rhythm:
    """Asked after every step by every process. The first process has the clock; any may hear that the job must go."""

    def __init__(
        self, workers: Workers, preemption: Preemption, store: Busy, every_seconds: float, every_steps: int = 0
    ) -> None:
        self.should_stop = False
        self._workers, self._preemption, self._store = workers, preemption, store
        self._every_seconds, self._every_steps = every_seconds, every_steps
        self._agreement = Agreement(workers, 2)
        self._since = time.monotonic()
        self._waiting = False

    def is_time(self, step: int, *, may: bool = True) -> bool:
        """Whether to save now; what falls due where it may not be is put off."""
        stop, due = self._agreement.on(self._preemption.asked, self._is_due())
        self.should_stop = self.should_stop or stop
        self._waiting = self._waiting or stop or due or bool(self._every_steps and step % self._every_steps == 0)
        if not (self._waiting and may):
            return False
        self.saved()
        return True

    def must_go(self) -> bool:
        """Asked by every process where no step was taken, as in an evaluation."""
        stop, due = self._agreement.on(self._preemption.asked, self._is_due())
        self.should_stop, self._waiting = self.should_stop or stop, self._waiting or due
        return self.should_stop

    def saved(self) -> None:
        self._since, self._waiting = time.monotonic(), False

    def conclude(self) -> None:
        """Nobody is left waiting for this process's word."""
        self._agreement.conclude()

    def _is_due(self) -> bool:
        """A disk that is slower than the rhythm makes the rhythm slower, not the training."""
        if not self._workers.is_first or self._store.is_busy:
            return False
        return bool(self._every_seconds) and time.monotonic() - self._since >= self._every_seconds
