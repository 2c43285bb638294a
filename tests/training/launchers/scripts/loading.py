"""A batch takes three times as long to load as to train with, and a CPU all the while."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from falaj.training import Session


def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Slow(Dataset):
    def __len__(self):
        return 4096

    def __getitems__(self, indices):
        work(0.06)
        return [torch.ones(8) for _ in indices]


def loss_of(model, batch):
    work(0.02)
    return model(batch).square().mean()


model = nn.Linear(8, 1)
session = Session()
session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
for _, batch in zip(range(60), session.batches(DataLoader(Slow(), batch_size=4)), strict=False):
    session.step(loss_of, batch)
session.finish()
print("trained with", session.profile.setting.workers, "loader processes on", session.profile.setting.cpus, "CPUs")
