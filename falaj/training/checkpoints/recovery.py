"""What a loop says after every step, and hears: a checkpoint that is due is saved, and when the job must go, it is told."""

from typing import Final, NoReturn, Self

from falaj.training.checkpoints.manifests import Manifest
from falaj.training.checkpoints.preemption import GAVE_BACK, Preemption
from falaj.training.checkpoints.rhythm import Rhythm
from falaj.training.checkpoints.saving import Checkpoints, Failed, Saved
from falaj.training.checkpoints.state import TrainingState

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
        self.metric: float | None = None  # what the next checkpoint is rated by; set it after an evaluation
        self._checkpoints, self._state = checkpoints, state
        self._total = total_steps
        self._preemption = preemption or Preemption()
        self._rhythm = Rhythm(checkpoints.workers, self._preemption, checkpoints, every_seconds, every_steps)
        self._resumed: int | None = None

    def __enter__(self) -> Self:
        self._preemption.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._preemption.__exit__(*_)
        self._checkpoints.wait()

    def resume(self) -> Manifest | None:
        """Goes on from the newest whole checkpoint, if there is one."""
        found = self._checkpoints.load(self._state)
        self._resumed = None if found is None else found.step
        return found

    def stepped(self) -> None:
        """A step is done and counted; saves where it is time, and before the job has to go."""
        self._state.step += 1
        if self.is_time():
            self.checkpoint()
            if self.should_stop:
                self._checkpoints.wait()

    def step_is(self, step: int) -> None:
        """For a training that counts its steps itself."""
        self._state.step = step

    def is_time(self) -> bool:
        """After a step, by every process: whether to save. `should_stop` says whether to leave after that."""
        return self._rhythm.is_time(self._state.step)

    def must_go(self) -> bool:
        """Where no step was taken, by every process: whether to save and leave all the same."""
        return self._rhythm.must_go()

    @property
    def should_stop(self) -> bool:
        return self._rhythm.should_stop

    def checkpoint(self) -> None:
        """Now, whether it is time or not."""
        progress = self._state.step / self._total if self._total else 0.0
        self._checkpoints.save(self._state, metric=self.metric, progress=progress)
        self._rhythm.saved()

    def finish(self) -> Saved | Failed | None:
        """Saves the end, unless it is saved already, and waits for it."""
        self._rhythm.conclude()
        saved = self._checkpoints.wait()
        if self._state.step != (saved.step if isinstance(saved, Saved) else self._resumed):
            self.checkpoint()
        return self._checkpoints.wait()

    def leave(self) -> NoReturn:
        """Gives the place back; the job is queued again and goes on from what was saved."""
        self._checkpoints.wait()
        raise SystemExit(GAVE_BACK)
