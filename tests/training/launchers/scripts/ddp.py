"""A model of two processes that saves at every step. Where asked to, it loses a process once, or waits in its first try
until it is told to go. When it is done, the same is trained again from the beginning, and nothing happens to that."""

import argparse
import itertools
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from falaj.training.checkpoints import Preemption, Recovery, TrainingState, checkpoints_from_environment, resumable

given = argparse.ArgumentParser()
given.add_argument("--steps", type=int, default=12)
given.add_argument("--lose-at", type=int, default=0)
given.add_argument("--wait-at", type=int, default=0)
asked = given.parse_args()

dist.init_process_group("gloo")
rank, lost, now = dist.get_rank(), Path(os.environ["FALAJ_OUTPUT"]) / "lost", os.environ["FALAJ_TRY"]


def begun():
    torch.manual_seed(17)
    rows = torch.randn(64, 8)
    loader = resumable(DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=4), seed=17)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01), loader


def learned(model, optimiser, loader):
    """The loss of each step, as it is taken."""
    while True:
        for inputs, wanted in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            yield loss.item()


def say(words):
    if rank == 0:
        print(words, flush=True)


model, optimiser, loader = begun()
state, preemption = TrainingState(model=model, optimisers=optimiser, loader=loader), Preemption()
kept, told = checkpoints_from_environment(), {"total_steps": asked.steps, "preemption": preemption}
with Recovery(kept, state, every_steps=1, **told) as recovery:
    recovery.resume()
    say(f"try {now} begins at step {state.step} of {dist.get_world_size()}")
    losses = learned(model, optimiser, loader)
    while state.step < asked.steps and not recovery.should_stop:
        loss = next(losses)
        say(f"step {state.step + 1} {loss:.9f}")  # before it is saved: what was saved is not told again
        recovery.stepped()
        while state.step == asked.wait_at and now == "1" and not preemption.asked:
            time.sleep(0.1)
        if rank == 1 and state.step == asked.lose_at and not lost.exists():
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if recovery.should_stop:
        recovery.leave()
    recovery.finish()
for number, loss in enumerate(itertools.islice(learned(*begun()), asked.steps), 1):
    say(f"undisturbed {number} {loss:.9f}")
dist.destroy_process_group()
