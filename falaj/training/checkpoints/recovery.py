"""What a loop says after every step, and hears: a checkpoint that is due is saved, and when the job must go, it is told."""

import time
from typing import Final, NoReturn, Self

from falaj.training.checkpoints.manifests import Manifest
from falaj.training.checkpoints.preemption import GAVE_BACK, Preemption
from falaj.training.checkpoints.saving import Checkpoints, Failed, Saved
from falaj.training.checkpoints.state import TrainingState
from falaj.training.checkpoints.workers import Agreement

_EVERY: Final = 600.0


class Recovery:
    """Around a loop, in every process alike:

        with Recovery(checkpoints, state, every_seconds=600) as recovery:
            recovery.resume()
            while state.step < steps and not recovery.should_stop:
                ...
                recovery.stepped()
            if recovery.should_stop:
                recovery.leave()

    Processes of one training agree on the step they save at and leave after, whoever of them heard the signal.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        state: TrainingState,
        *,
        every_seconds: float = _EVERY,
        every_steps: int = 0,
        total_steps: int = 0,
        preemption: Preemption | None = None,
    ) -> None:
        self.should_stop = False
        self.metric: float | None = None  # what the next checkpoint is rated by; set it after an evaluation
        self._checkpoints, self._state = checkpoints, state
        self._every_seconds, self._every_steps, self._total = every_seconds, every_steps, total_steps
        self._preemption = preemption or Preemption()
        self._agreement = Agreement(checkpoints.workers, 2)
        self._saved_at = time.monotonic()

    def __enter__(self) -> Self:
        self._preemption.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._preemption.__exit__(*_)
        self._checkpoints.wait()

    def resume(self) -> Manifest | None:
        """Goes on from the newest whole checkpoint, if there is one."""
        return self._checkpoints.load(self._state)

    def stepped(self) -> None:
        """A step is done and counted; saves where it is time, and before the job has to go."""
        self._state.step += 1
        stop, due = self._agreement.on(self._preemption.asked, self._is_due())
        if stop:
            self.checkpoint()
            self._checkpoints.wait()
            self.should_stop = True
        elif due or (self._every_steps and self._state.step % self._every_steps == 0):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Now, whether it is time or not."""
        progress = self._state.step / self._total if self._total else 0.0
        self._checkpoints.save(self._state, metric=self.metric, progress=progress)
        self._saved_at = time.monotonic()

    def finish(self) -> Saved | Failed | None:
        """Saves the end and waits for it."""
        self.checkpoint()
        return self._checkpoints.wait()

    def leave(self) -> NoReturn:
        """Gives the place back; the job is queued again and goes on from what was saved."""
        self._checkpoints.wait()
        raise SystemExit(GAVE_BACK)

    def _is_due(self) -> bool:
        """The first process has the clock. A disk that is slower than the rhythm makes the rhythm slower, not the training."""
        if not self._checkpoints.workers.is_first or self._checkpoints.is_busy:
            return False
        return bool(self._every_seconds) and time.monotonic() - self._saved_at >= self._every_seconds
