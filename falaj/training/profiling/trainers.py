"""How a Lightning Trainer's hooks tell the clock what the time belongs to. `trainer` makes a callback of it."""

from typing import Any

from falaj.training.hardware import Hardware
from falaj.training.profiling.clock import COMPUTE, DATA, OPTIMISER, OTHER, TRANSFER
from falaj.training.profiling.sessions import SessionProfile
from falaj.training.recipes import Facts, Recipe


class Timing:
    """Communication that hides in the backward pass, as DDP's does, counts as computing."""

    def __init__(self, profile: SessionProfile, recipe: Recipe, facts: Facts, hardware: Hardware) -> None:
        self.profile, self._known = profile, (recipe, facts, hardware)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self.profile.trains(*self._known)
        source = getattr(trainer.fit_loop, "_data_source", None)  # before its processes start
        self.profile.reads(getattr(source, "instance", None))
        self._time_transfers(trainer.strategy)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.profile.reads(trainer.train_dataloader)
        self.profile.clock.turn(DATA)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.profile.saw(batch)
        self.profile.clock.turn(COMPUTE)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.profile.clock.turn(OPTIMISER)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.profile.stepped()
        self.profile.clock.turn(DATA)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self.profile.clock.turn(OTHER)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.profile.clock.turn(DATA)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.profile.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.profile.close()

    def _time_transfers(self, strategy: Any) -> None:
        move, clock = strategy.batch_to_device, self.profile.clock

        def timed(*arguments: Any, **named: Any) -> Any:
            before = clock.phase
            clock.turn(TRANSFER)
            try:
                return move(*arguments, **named)
            finally:
                clock.turn(before)

        strategy.batch_to_device = timed
