"""A model of two processes that saves at every step, and loses a process once where it is asked to."""

import argparse
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from falaj.training.checkpoints import Recovery, TrainingState, checkpoints_from_environment, resumable

given = argparse.ArgumentParser()
given.add_argument("--steps", type=int, default=12)
given.add_argument("--lose-at", type=int, default=0)
given.add_argument("--pause", type=float, default=0.0)
asked = given.parse_args()

dist.init_process_group("gloo")
rank, lost = dist.get_rank(), Path(os.environ["FALAJ_OUTPUT"]) / "lost"
torch.manual_seed(17)
rows = torch.randn(64, 8)
loader = resumable(DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=4), seed=17)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
state = TrainingState(model=model, optimisers=optimiser, loader=loader)

with Recovery(checkpoints_from_environment(), state, every_steps=1, total_steps=asked.steps) as recovery:
    recovery.resume()
    if rank == 0:
        print(
            f"try {os.environ['FALAJ_TRY']} begins at step {state.step} of {dist.get_world_size()}",
            flush=True,
        )
    while state.step < asked.steps and not recovery.should_stop:
        for inputs, wanted in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            recovery.stepped()
            time.sleep(asked.pause)
            if rank == 1 and state.step == asked.lose_at and not lost.exists():
                lost.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 0:
                print(f"step {state.step} {loss.item():.9f}", flush=True)
            if state.step == asked.steps or recovery.should_stop:
                break
    if recovery.should_stop:
        recovery.leave()
    recovery.finish()
dist.destroy_process_group()
