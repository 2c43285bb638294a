"""A small training with everything that has a state: dropout, running averages, rates, augmentations, random numbers."""

import json
import os
import random
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # optimisers do it at their first step; here once for all forks
from torch import nn

from falaj.training.checkpoints.keeping import Keep
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.checkpoints.loaders import resumable
from falaj.training.checkpoints.recovery import Recovery
from falaj.training.checkpoints.saving import Checkpoints
from falaj.training.checkpoints.state import TrainingState

KEY = GivenKey(bytes(range(32)))


class Rows(torch.utils.data.Dataset):
    """Augmented at random, by each of the three generators."""

    def __init__(self, count=48):
        self.rows = torch.linspace(-1, 1, count * 6).reshape(count, 6).sin()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return self.rows[index] + 0.1 * noise, self.rows[index].sum(0, keepdim=True)


class Parts:
    """All of it, made the same way every time."""

    def __init__(self, *, loader_processes=0, model=None, optimiser=None):
        random.seed(1)
        np.random.seed(2)
        torch.manual_seed(3)
        torch.set_num_threads(1)
        self.model = model or network()
        self.optimiser = (optimiser or torch.optim.AdamW)(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, 40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=7)
        plain = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=loader_processes)
        self.loader = resumable(plain, seed=5)
        self.state = TrainingState(
            model=self.model, optimisers=self.optimiser, schedulers=self.scheduler, scaler=self.scaler, loader=self.loader
        )

    def step(self, rows, wanted):
        loss = (self.model(rows * (1 + 0.01 * random.random() + 0.01 * np.random.rand())) - wanted).pow(2).mean()
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.scheduler.step()
        return loss.item()


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 1))


def checkpoints(folder, tell=None, key=KEY, **keep):
    told = [] if tell is None else tell
    return Checkpoints(Path(folder), key, keep=Keep(**keep), tell=told.append)


def train(folder, steps, *, every=3, losses=None, resume=True, then=lambda step: None, tell=None, **parts):
    """Up to so many steps, from where it was; each loss is written down at once, by its step."""
    made = Parts(**parts)
    found: dict[int, float] = {}
    with Recovery(checkpoints(folder, tell), made.state, every_seconds=0, every_steps=every) as recovery:
        if resume:
            recovery.resume()
        while made.state.step < steps and not recovery.should_stop:
            for rows, wanted in made.loader:
                step = made.state.step
                found[step] = made.step(rows, wanted)
                if losses is not None:
                    with open(losses, "a") as file:
                        file.write(json.dumps([step, found[step].hex()]) + "\n")
                recovery.stepped()
                then(made.state.step)
                if made.state.step == steps or recovery.should_stop:
                    break
        if recovery.should_stop:
            recovery.leave()
    return found, made


def in_a_fork(work):
    """The child's number. It ends as a program would, with its threads awaited."""
    if child := os.fork():
        return child
    code = 0
    try:
        work()
    except SystemExit as left:
        code = left.code
    except BaseException:
        code = 99
        raise
    finally:
        os._exit(code)


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
