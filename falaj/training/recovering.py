"""A session that can be saved and goes on from where it was saved last; `checkpoints` does it, here it is put together."""

import io
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from falaj.training import checkpoints
from falaj.training.checkpoints import randomness
from falaj.training.saves import Saves

_LOG: Final = logging.getLogger("falaj.training")


class Recovering:
    """By all processes of a training alike. Where it has no folder, nothing is saved and nothing resumed."""

    def __init__(self, saves: Saves, *, model: Any, optimiser: Any, schedulers: Any, parts: dict[str, Any]) -> None:
        self._recovery: Any = None
        self._random: dict[str, Any] | None = None
        self._schedulers = tuple(schedulers) if isinstance(schedulers, Sequence) else (schedulers,)
        self._rates: bytes | None = None
        if (store := saves.open()) is None:
            return
        state = checkpoints.TrainingState(model=model, optimisers=optimiser, schedulers=schedulers, others=parts)
        rhythm = {"every_seconds": saves.every_seconds, "every_steps": saves.every_steps}
        self._recovery = checkpoints.Recovery(store, state, **rhythm, total_steps=saves.total_steps)
        self._recovery.__enter__()
        if (found := self._recovery.resume()) is not None:
            self._random = randomness.captured()
            _LOG.info("The training goes on after step %d.", found.step)

    def settle(self) -> None:
        """Before the first batch: what was drawn while the program started again does not count."""
        if self._random is not None:
            randomness.restore(self._random)
            self._random = None

    def stepped(self, step: int, before_saving: Callable[[], None], *, now: bool, metric: float | None) -> bool:
        """Saves where it is time, or is to be `now`. Whether the training has to leave after that."""
        if (recovery := self._recovery) is None:
            return False
        recovery.step_is(step)
        recovery.metric = metric if metric is not None else recovery.metric
        if recovery.is_time() or now:
            before_saving()
            recovery.checkpoint()
        return bool(recovery.should_stop)

    def must_go(self) -> bool:
        """Where no step was taken."""
        return self._recovery is not None and bool(self._recovery.must_go())

    def read_through(self) -> None:
        """The epoch's last batch was used; what the loop does after it may come before the next checkpoint or after it."""
        self._rates = self._rated()

    def moved_on(self) -> bool:
        """Whether a scheduler has turned to the next epoch since then. If not, that is still to be done after a restart."""
        return self._rates is not None and self._rates != self._rated()

    def _rated(self) -> bytes | None:
        if self._recovery is None:
            return None
        rates = io.BytesIO()
        torch.save([one.state_dict() for one in self._schedulers], rates)
        return rates.getvalue()

    def leave(self) -> None:
        if self._recovery is not None:
            self._recovery.leave()

    def finish(self, step: int) -> None:
        if self._recovery is not None:
            self._recovery.step_is(step)
            self._recovery.finish()

    def close(self) -> None:
        """What is being saved is awaited, and signals mean again what they did before."""
        if self._recovery is not None:
            self._recovery.__exit__()
            self._recovery = None
