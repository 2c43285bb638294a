"""A session of two processes that saves at every step; one of them stops taking part once, and never ends by itself."""

import os
import time
from pathlib import Path

import torch

from falaj.training import Saves, Session, Wishes

hung = Path(os.environ["FALAJ_OUTPUT"]) / "hung"
rank = int(os.environ["RANK"])
torch.manual_seed(17)
model = torch.nn.Linear(8, 1)
session = Session(Wishes(precision="float32", profile="off", patience=4.0), saves=Saves(every_seconds=0, every_steps=1))
session.prepare(model, torch.optim.Adam(model.parameters(), lr=0.01))
rows = torch.randn(64, 8, generator=torch.Generator().manual_seed(17))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=4, shuffle=True)


def loss_of(model, rows):
    return (model(rows) - rows.sum(1, keepdim=True)).pow(2).mean()


if rank == 0:
    print(f"try {os.environ['FALAJ_TRY']} begins at step {session.steps} of {os.environ['WORLD_SIZE']}", flush=True)
for _ in session.epochs(1):
    for (batch,) in session.batches(loader):
        loss = session.step(loss_of, batch)
        if rank == 0:
            print(f"step {session.steps} {loss.item():.9f}", flush=True)
        if rank == 1 and session.steps == 5 and not hung.exists():
            hung.touch()
            while True:
                time.sleep(1)
session.finish()
