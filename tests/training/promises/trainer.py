"""What a Lightning Trainer that follows a recipe does."""

import logging
import math
import os
import signal
import warnings

import torch
from torch import nn
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.training import Hardware, Saves, Wishes, programs, trainer_for
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.errors import LossNotFinite, NotPrepared
from falaj.training.trainer import recipe_of
from tests.training.processes import in_a_fork

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.plugins.environments import LightningEnvironment
except ImportError:
    from pytorch_lightning import Callback, LightningModule, Trainer
    from pytorch_lightning.plugins.environments import LightningEnvironment

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
WORDS = 1031


class _Module(LightningModule):
    def __init__(self, factor=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.last, self.factor = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS), factor
        self.losses = []

    def training_step(self, batch, batch_idx):
        (ids,) = batch
        return functional.cross_entropy(self.last(self.words(ids)), ids) * self.factor

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def _loader():
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(64)), batch_size=16)


def _fitted(folder, module, wishes=None):
    trainer = trainer_for(
        module, wishes, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning: few loader processes
        trainer.fit(module, _loader())
    return trainer


def a_module_is_trained_as_the_recipe_says(folder):
    plain, halves = _Module(), _Module()
    _fitted(folder, plain, Wishes(precision="float32"))
    real, seen = programs.compile_fx, []
    programs.compile_fx = lambda program, examples, **_: (seen.append(program), program)[1]
    try:
        wishes = Wishes(precision="bfloat16", compiled=True, fused_loss=True, padded_outputs=128)
        trainer = _fitted(folder, halves, wishes)
    finally:
        programs.compile_fx = real
    assert recipe_of(trainer).precision.value == "bfloat16"
    assert trainer.precision == "bf16-mixed"
    assert seen
    assert len(plain.losses) == 4
    assert all(math.isclose(a, b, rel_tol=0.01) for a, b in zip(plain.losses, halves.losses, strict=True))


def a_loss_that_is_no_number_stops_the_trainer(folder):
    try:
        _fitted(folder, _Module(factor=math.nan))
    except LossNotFinite as error:
        stopped = error
    assert stopped.step == 1
    assert "the weights have changed by it" in str(stopped)


def _made(folder, wishes=None, **more):
    quiet = {"logger": False, "enable_checkpointing": False, "default_root_dir": folder}
    return trainer_for(_Module(), wishes or Wishes(profile="off"), **quiet, **more)


def what_is_left_to_lightning_the_recipe_does_not_promise(folder):
    wishes = Wishes(precision="bfloat16", guarded_steps=3, micro_batch=8, loader_workers=4, profile="off")
    recipe = recipe_of(_made(folder, wishes))
    assert (recipe.guarded_steps.value, recipe.micro_batch.value, recipe.loader_workers.value) == (0, 0, "as given")
    assert "Session" in recipe.guarded_steps.why


def processes_of_one_machine_are_told_from_those_of_several(folder):
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    trainer = _made(folder, hardware=Hardware(count=4, memory=1 << 40))
    assert (trainer.num_devices, trainer.num_nodes) == (2, 2)


def one_callback_and_one_plugin_need_no_list(folder):
    saves = Saves(folder=folder / "kept", key=GivenKey(bytes(range(32))))
    own, plugin = Callback(), LightningEnvironment()
    trainer = _made(folder, saves=saves, callbacks=own, plugins=plugin)
    assert own in trainer.callbacks
    assert plugin is trainer._accelerator_connector.cluster_environment
    assert own in _made(folder, callbacks=(own,)).callbacks
    assert own not in _made(folder, callbacks=None).callbacks


def a_strategy_that_would_not_go_on_from_sealed_checkpoints_is_refused(folder):
    saves = Saves(folder=folder / "kept", key=GivenKey(bytes(range(32))))
    try:
        _made(folder, saves=saves, strategy="fsdp")
    except Invalid as error:
        refused = error
    assert "--no-checkpoints" in str(refused)


def _epochs(folder, name, saves=None, dies_at=None, how=signal.SIGKILL, epochs=3):
    """Epochs of shuffled rows with dropout and a falling rate, each loss written down at its step."""

    class Dying(_Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.2)

        def training_step(self, batch, batch_idx):
            (ids,) = batch
            loss = functional.cross_entropy(self.last(self.drop(self.words(ids))), ids)
            rate = self.trainer.optimizers[0].param_groups[0]["lr"]
            with open(folder / name, "a") as file:
                file.write(f"{self.trainer.global_step + 1} {loss.item().hex()} {rate}\n")
            return loss

        def configure_optimizers(self):
            optimiser = super().configure_optimizers()
            return [optimiser], [torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)]

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.trainer.global_step == dies_at:
                os.kill(os.getpid(), how)

    module = Dying()
    torch.manual_seed(5)
    wishes = Wishes(precision="float32", profile="off")
    trainer = trainer_for(
        module, wishes, saves=saves, max_epochs=epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning: few loader processes
        rows = torch.utils.data.TensorDataset(torch.arange(64))
        trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True))


def _told(file):
    return {int(line.split()[0]): line.split()[1:] for line in file.read_text().splitlines()}


def a_fit_that_was_killed_and_sent_away_has_the_losses_of_one_that_was_not(folder):
    saves = Saves(folder=folder / "kept", key=GivenKey(bytes(range(32))), every_seconds=0, every_steps=1)
    _epochs(folder, "plain", Saves(folder=folder / "other", key=GivenKey(bytes(range(32)))))
    killed, asked = (signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 128 + signal.SIGTERM)
    for step, (how, code) in ((2, killed), (6, asked), (8, asked)):
        assert in_a_fork(lambda step=step, how=how: _epochs(folder, "broken", saves, step, how)) == code
    assert in_a_fork(lambda: _epochs(folder, "broken", saves)) == 0
    expected, found = _told(folder / "plain"), _told(folder / "broken")
    assert list(expected) == list(range(1, 13))
    assert found == expected
    whole = b"".join(file.read_bytes() for file in (folder / "kept").rglob("*") if file.is_file())
    assert b"state_dict" not in whole


def the_end_of_a_fit_is_saved_and_more_epochs_go_on_from_there(folder):
    _epochs(folder, "plain", Saves(folder=folder / "other", key=GivenKey(bytes(range(32)))))
    saves = Saves(folder=folder / "kept", key=GivenKey(bytes(range(32))))
    for epochs, steps in ((2, 8), (2, 8), (3, 12)):  # the second finds that all is done
        assert in_a_fork(lambda epochs=epochs: _epochs(folder, "parts", saves, epochs=epochs)) == 0
        assert len((folder / "parts").read_text().splitlines()) == steps
    assert _told(folder / "parts") == _told(folder / "plain")


def a_trainer_without_a_recipe_says_how_to_get_one(folder):
    try:
        recipe_of(Trainer(logger=False, enable_checkpointing=False, default_root_dir=folder, accelerator="cpu"))
    except NotPrepared as error:
        refused = error
    assert "trainer_for(module)" in str(refused)
