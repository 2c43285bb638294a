"""A Lightning Trainer that follows a recipe, for those whose model is a LightningModule."""

import math
from importlib import import_module
from typing import Any, Final

import torch

from falaj.base.errors import Invalid
from falaj.training import layers, optimisers
from falaj.training.detection import detect, facts_of
from falaj.training.errors import LossNotFinite, NotPrepared
from falaj.training.hardware import Hardware
from falaj.training.profiling.profile import Profile
from falaj.training.profiling.sessions import profile_for
from falaj.training.profiling.trainers import Timing
from falaj.training.programs import generator
from falaj.training.recipes import Recipe, Wishes, choose
from falaj.training.saves import Saves

try:  # the two packages are one; which is there depends on who installed it
    from lightning.pytorch import Callback, Trainer
except ImportError:
    from pytorch_lightning import Callback, Trainer  # type: ignore[assignment,unused-ignore]

_PRECISIONS: Final = {"bfloat16": "bf16-mixed", "float16": "16-mixed", "float32": "32-true", "tf32": "32-true"}
_STRATEGIES: Final = {"single": "auto", "ddp": "ddp", "fsdp": "fsdp"}
_LOOKS_EVERY: Final = 50  # steps; to look at a loss on a GPU is to wait for it


def trainer_for(
    module: Any,
    wishes: Wishes | None = None,
    *,
    saves: Saves | None = None,
    hardware: Hardware | None = None,
    **settings: Any,
) -> Any:
    """A `lightning.Trainer` for this module; `settings` go to it as they are, and stand above the recipe's.

    In a job with checkpoints, or with a folder in `saves`, it saves itself, and `fit` goes on from what was saved.
    """
    here = hardware or detect()
    facts = facts_of(module)
    recipe = choose(here, facts, wishes)
    if recipe.strategy.value not in _STRATEGIES and "strategy" not in settings:
        raise Invalid(
            f"{recipe.strategy.why} A Trainer needs strategy=ModelParallelStrategy() and the plan in the module's "
            "configure_model; a Session finds one by itself"
        )
    chosen = {
        "accelerator": "gpu" if here.kind == "cuda" else "cpu",
        "devices": max(1, here.count),
        "precision": _PRECISIONS[recipe.precision.value],
        "strategy": _STRATEGIES.get(recipe.strategy.value),
        "benchmark": facts.convolutions,
    }
    timed = Timed(profile_for(here, wishes or Wishes()), recipe, facts, here)
    following = Following(recipe, here, timed.profile)
    callbacks = [following, timed, *settings.pop("callbacks", ())]
    if not (saves := saves or Saves()).place():
        return Trainer(**(chosen | settings), callbacks=callbacks)
    sealed = import_module("falaj.training.trainer_checkpoints")  # which needs more than a Trainer that saves nothing
    files = sealed.SealedFiles(saves)
    callbacks.append(sealed.SealedCheckpoints(saves, files, following.look))
    plugins = [files, *settings.pop("plugins", ())]
    trainer = sealed.RecoveringTrainer(**(chosen | settings), callbacks=callbacks, plugins=plugins)
    trainer.saves = saves
    return trainer


def recipe_of(trainer: Any) -> Recipe:
    """The recipe that `trainer_for` gave it."""
    for callback in trainer.callbacks:
        if isinstance(callback, Following):
            return callback.recipe
    raise NotPrepared("this Trainer follows no recipe: make it by trainer_for(module)")


class Timed(Timing, Callback):  # type: ignore[misc,unused-ignore]
    """Where the time of its steps goes."""


class Following(Callback):  # type: ignore[misc,unused-ignore]
    """Does to the module and its optimisers what Lightning's settings do not."""

    def __init__(self, recipe: Recipe, hardware: Hardware, profile: Profile) -> None:
        self.recipe, self._hardware, self._profile = recipe, hardware, profile

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        if self._hardware.kind == "cuda":
            torch.set_float32_matmul_precision("highest" if self.recipe.precision.value == "float32" else "high")
        if self.recipe.channels_last.value:
            pl_module.to(memory_format=torch.channels_last)
        if self.recipe.checkpointing.value:
            layers.compute_twice(pl_module)
        if self.recipe.compiled.value:
            pl_module.training_step = torch.compile(pl_module.training_step, backend=generator(self.recipe))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        for optimiser in trainer.optimizers:
            if self._hardware.kind == "cuda" and optimisers.can_be_fused(optimiser):
                optimisers.fuse(optimiser)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._hardware.kind != "cuda" or trainer.global_step % _LOOKS_EVERY == 0:
            self.look(trainer.global_step, outputs)

    def look(self, step: int, outputs: Any) -> None:
        """At a loss; one that is bad ends the training, and the run says at which step."""
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        if loss is not None and not math.isfinite(float(loss)):
            bad = LossNotFinite(step, float(loss))
            self._profile.run.words({"falaj.training.stopped_at": str(step), "falaj.training.stopped": str(bad)})
            raise bad
