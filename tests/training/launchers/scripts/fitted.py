"""A LightningModule of two processes, with the Trainer of the recipe; loses a process once where it is asked to."""

import logging
import os
import signal
import sys
from pathlib import Path

import torch
from lightning.pytorch import LightningModule
from torch.utils.data import DataLoader, TensorDataset

from falaj.training import Saves, Wishes, trainer_for

lose_at, lost = int(sys.argv[1]), Path(os.environ["FALAJ_OUTPUT"]) / "lost"
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(17)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))

    def on_train_start(self):
        if self.global_rank == 0:
            print(f"try {os.environ['FALAJ_TRY']} begins at step {self.global_step} of {self.trainer.world_size}", flush=True)

    def training_step(self, batch, batch_idx):
        (rows,) = batch
        loss = torch.nn.functional.mse_loss(self.layers(rows), rows.sum(1, keepdim=True))
        if self.global_rank == 0:
            print(f"step {self.global_step + 1} {loss.item():.9f}", flush=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.global_rank == 1 and self.global_step == lose_at and not lost.exists():
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


rows = torch.randn(48, 8, generator=torch.Generator().manual_seed(17))
module = Module()
trainer = trainer_for(
    module,
    Wishes(precision="float32", profile="off"),
    saves=Saves(every_seconds=0, every_steps=1),
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
torch.manual_seed(17 + trainer.global_rank)
trainer.fit(module, DataLoader(TensorDataset(rows), batch_size=4, shuffle=True))
