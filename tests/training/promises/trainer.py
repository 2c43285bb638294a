"""What a Lightning Trainer that follows a recipe does."""

import logging
import math
import warnings

import torch
from torch import nn
from torch.nn import functional

from falaj.training import Wishes, programs, trainer_for
from falaj.training.errors import LossNotFinite, NotPrepared
from falaj.training.trainer import recipe_of

try:
    from lightning.pytorch import LightningModule, Trainer
except ImportError:
    from pytorch_lightning import LightningModule, Trainer

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


def a_trainer_without_a_recipe_says_how_to_get_one(folder):
    try:
        recipe_of(Trainer(logger=False, enable_checkpointing=False, default_root_dir=folder, accelerator="cpu"))
    except NotPrepared as error:
        refused = error
    assert "trainer_for(module)" in str(refused)
