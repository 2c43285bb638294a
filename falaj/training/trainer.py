"""A Lightning Trainer that follows a recipe, for those whose model is a LightningModule."""

import dataclasses
import math
from importlib import import_module
from typing import Any, Final

import torch

from falaj.base.errors import Invalid
from falaj.training import applying, optimisers, together
from falaj.training.detection import detect, facts_of
from falaj.training.errors import LossNotFinite, NotPrepared
from falaj.training.hardware import Hardware
from falaj.training.profiling.profile import Profile
from falaj.training.profiling.sessions import profile_for
from falaj.training.profiling.trainers import Timing
from falaj.training.programs import generator
from falaj.training.recipes import Facts, Recipe, Wishes, choose
from falaj.training.saves import Saves

try:  # the two packages are one; which is there depends on who installed it
    from lightning.pytorch import Callback, Trainer
except ImportError:
    from pytorch_lightning import Callback, Trainer  # type: ignore[assignment,unused-ignore]

_PRECISIONS: Final = {"bfloat16": "bf16-mixed", "float16": "16-mixed", "float32": "32-true", "tf32": "32-true"}
_STRATEGIES: Final = {"single": "auto", "ddp": "ddp", "fsdp": "fsdp"}
_LOOKS_EVERY: Final = 50  # steps; to look at a loss on a GPU is to wait for it
_UNSEALED: Final = ("fsdp", "modelparallel", "deepspeed")  # strategies of Lightning's that read files by themselves
# What a Trainer leaves to Lightning, whatever is wished: its run must not promise it.
_LEFT: Final = {
    "attention": ("torch's own", "Kernels are timed by a Session alone."),
    "micro_batch": (0, "Lightning takes a batch whole, and ends where it does not fit; a Session halves it."),
    "guarded_steps": (0, "Lightning's steps are not compared with float32; a Session's are."),
    "loader_workers": ("as given", "Lightning reads the loader as it is; a Session finds how many it needs."),
}


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
    facts = _facts(module)
    recipe = choose(here, facts, wishes)
    for name, (value, why) in _LEFT.items():
        recipe = recipe.but(name, value, why)
    if recipe.strategy.value not in _STRATEGIES and "strategy" not in settings:
        raise Invalid(
            f"{recipe.strategy.why} A Trainer needs strategy=ModelParallelStrategy() and the plan in the module's "
            "configure_model; a Session finds one by itself"
        )
    chosen = {
        "accelerator": "gpu" if here.kind == "cuda" else "cpu",
        "devices": (beside := together.on_this_machine(max(1, here.count))),
        "num_nodes": max(1, here.count // beside),
        "precision": _PRECISIONS[recipe.precision.value],
        "strategy": _STRATEGIES.get(recipe.strategy.value),
        "benchmark": facts.convolutions,
    }
    timed = Timed(profile_for(here, wishes or Wishes()), recipe, facts, here)
    following = Following(recipe, facts, here, timed.profile)
    callbacks = [following, timed, *_listed(settings.pop("callbacks", None))]
    if not (saves := saves or Saves()).place():
        return Trainer(**(chosen | settings), callbacks=callbacks)
    _refuse_unsealed((chosen | settings)["strategy"])
    sealed = import_module("falaj.training.trainer_checkpoints")  # which needs more than a Trainer that saves nothing
    files = sealed.SealedFiles(saves)
    callbacks.append(sealed.SealedCheckpoints(saves, files, following.look))
    plugins = [files, *_listed(settings.pop("plugins", None))]
    trainer = sealed.RecoveringTrainer(**(chosen | settings), callbacks=callbacks, plugins=plugins)
    trainer.saves = saves
    return trainer


def _facts(module: Any) -> Facts:
    """Its optimisers are made later: each is looked at then."""
    return dataclasses.replace(facts_of(module), fusible=True)  # type: ignore[type-var,unused-ignore]


def _listed(given: Any) -> list[Any]:
    """Lightning takes one alone as well."""
    return [] if given is None else list(given) if isinstance(given, list | tuple | set) else [given]


def _refuse_unsealed(strategy: Any) -> None:
    named = strategy if isinstance(strategy, str) else type(strategy).__name__
    if named.lower().startswith(_UNSEALED):
        raise Invalid(
            f"Lightning's {named} reads checkpoints by itself and would not go on from sealed ones: train with a Session, "
            "which seals what is shared out, too, or without checkpoints (falaj train --no-checkpoints)"
        )


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

    def __init__(self, recipe: Recipe, facts: Facts, hardware: Hardware, profile: Profile) -> None:
        self.recipe, self._facts, self._hardware, self._profile = recipe, facts, hardware, profile

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        applying.apply(self.recipe, self._facts, pl_module, self._hardware.kind)
        if self.recipe.compiled.value:
            pl_module.training_step = torch.compile(pl_module.training_step, backend=generator(self.recipe))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        for optimiser in trainer.optimizers:
            if self.recipe.fused_optimiser.value and optimisers.can_be_fused(optimiser):
                optimisers.fuse(optimiser)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._hardware.kind != "cuda" or trainer.global_step % _LOOKS_EVERY == 0:
            self.look(trainer.global_step, outputs)

    def look(self, step: int, outputs: Any) -> None:
        """At a loss; one that is bad ends the training, and the run says at which step."""
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        if loss is not None and not math.isfinite(float(loss)):
            bad = LossNotFinite(step, float(loss), taken=True)
            self._profile.run.words({"falaj.training.stopped_at": str(step), "falaj.training.stopped": str(bad)})
            raise bad
