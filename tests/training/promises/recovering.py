"""A plain loop through a session goes on after whatever happened to it, with the losses of one to which nothing happened."""

import math
import os
import random
import signal
import threading
import time

import numpy as np
import torch
import torch._dynamo  # optimisers do it at their first step; here once for all forks
from torch import nn

from falaj.training import Hardware, Saves, Session, Wishes
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.errors import LossNotFinite
from tests.training.processes import in_a_fork, together

KEY = GivenKey(bytes(range(32)))
STEPS = 18  # three epochs of 48 rows by eights


class _Rows(torch.utils.data.Dataset):
    """Augmented at random, by each of the three generators."""

    def __init__(self):
        self.rows = torch.linspace(-1, 1, 48 * 6).reshape(48, 6).sin()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return self.rows[index] + 0.1 * noise, self.rows[index].sum(0, keepdim=True)


def _loss_of(model, rows, wanted):
    return (model(rows * (1 + 0.01 * random.random())) - wanted).pow(2).mean()


def _loop(folder, *, every=1, after=lambda step: None, rank=0, size=8, wishes=None, workers=0):
    """The whole program of an author: dropout, a rate that falls with every epoch, rows that come at random."""
    random.seed(1 + rank)
    np.random.seed(2 + rank)
    torch.manual_seed(3 + rank)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.8)
    saves = Saves(folder=folder / "kept", key=KEY, every_seconds=0, every_steps=every) if every else Saves()
    session = Session(wishes or Wishes(precision="float32", profile="off"), saves=saves, say=lambda sentence: None)
    session.prepare(model, optimiser, scheduler=scheduler)
    random.random(), torch.rand(3)  # a program that draws numbers while it starts
    loader = torch.utils.data.DataLoader(_Rows(), batch_size=size, shuffle=True, num_workers=workers)
    for _ in session.epochs(3):
        for rows, wanted in session.batches(loader):
            loss = session.step(_loss_of, rows, wanted)
            with open(folder / f"losses-{rank}", "a") as file:
                file.write(f"{session.steps} {loss.item().hex()} {scheduler.get_last_lr()[0].hex()}\n")
            after(session.steps)
        scheduler.step()
    session.finish()
    return session, model


def _told(folder, rank=0):
    """The last word on each step."""
    lines = (folder / f"losses-{rank}").read_text().splitlines()
    return {int(line.split()[0]): line.split()[1:] for line in lines}, len(lines)


def _killed_at(*steps):
    left = list(steps)

    def after(step):
        if left and step == left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return after, left


def killed_five_times_a_loop_has_the_losses_of_one_that_was_not(folder):
    plain, broken = folder / "plain", folder / "broken"
    plain.mkdir(), broken.mkdir()
    _loop(plain)
    after, left = _killed_at(2, 6, 7, 12, 17)  # also where an epoch ends
    while left:
        assert in_a_fork(lambda: _loop(broken, every=2, after=after)) == -signal.SIGKILL
        left.pop(0)
    assert in_a_fork(lambda: _loop(broken, every=2)) == 0
    (expected, _), (found, lines) = _told(plain), _told(broken)
    assert found == expected
    assert len(found) == STEPS < lines


def without_checkpoints_a_loop_has_the_same_losses(folder):
    plain, saved = folder / "plain", folder / "saved"
    plain.mkdir(), saved.mkdir()
    _loop(plain, every=0)
    _loop(saved, every=4)
    assert _told(plain) == _told(saved)


def loader_processes_change_no_loss(folder):
    for workers in (0, 2):
        (folder / str(workers)).mkdir()
        _loop(folder / str(workers), every=0, workers=workers)
    assert _told(folder / "0") == _told(folder / "2")


class _Slow(torch.utils.data.Dataset):
    """Felt at every batch; says by whom it was loaded."""

    def __len__(self):
        return 240

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.tensor([float(index), torch.rand(()).item()]), torch.utils.data.get_worker_info() is not None


def a_loader_that_is_felt_gets_processes_and_its_samples_stay_as_they_were(folder):
    def seen(workers):
        torch.manual_seed(4)
        model = nn.Linear(2, 1)
        wishes = Wishes(precision="float32", profile="off", loader_workers=workers)
        session = Session(wishes, hardware=Hardware(cores=3), say=lambda sentence: None)
        session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0))
        loader = torch.utils.data.DataLoader(_Slow(), batch_size=4, shuffle=True)
        rows, elsewhere = [], []
        for given, in_a_process in session.batches(loader):
            session.step(lambda model, given: model(given).mean(), given)
            rows.append(given)
            elsewhere.append(bool(in_a_process.all()))
        return torch.cat(rows), elsewhere, session

    rows, here, _ = seen(0)
    found, elsewhere, session = seen(None)
    assert torch.equal(found, rows)
    assert not any(here)
    assert not elsewhere[0]
    assert any(elsewhere)
    assert sorted(rows[:, 0].tolist()) == [float(index) for index in range(240)]
    assert " ms" in session.recipe.loader_workers.why


class _Torn(_Slow):
    def __getitem__(self, index):
        if index == 9:
            raise ValueError("row 9 is torn")
        return super().__getitem__(index)


def what_a_loader_process_raises_reaches_the_loop_and_nothing_stays_behind(folder):
    model = nn.Linear(2, 1)
    session = Session(Wishes(precision="float32", profile="off", loader_workers=1), say=lambda sentence: None)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0))
    try:
        for given, _ in session.batches(torch.utils.data.DataLoader(_Torn(), batch_size=4)):
            session.step(lambda model, given: model(given).mean(), given)
    except ValueError as error:
        raised = error
    assert "row 9 is torn" in str(raised)
    assert session.steps == 2
    assert "falaj-receive" not in {thread.name for thread in threading.enumerate()}


def two_that_were_killed_five_times_have_the_losses_of_two_that_were_not(folder):
    plain, broken = folder / "plain", folder / "broken"
    plain.mkdir(), broken.mkdir()
    codes, _ = together(folder, 2, lambda rank: _loop(plain, rank=rank, size=4) and None)
    assert codes == [0, 0]
    for at in (2, 5, 6, 11, 16):

        def after(step, at=at):
            if step == at:
                os.kill(os.getpid(), signal.SIGKILL)

        codes, _ = together(folder, 2, lambda rank, after=after: _loop(broken, every=3, after=after, rank=rank, size=4))
        assert codes == [-signal.SIGKILL] * 2
    codes, _ = together(folder, 2, lambda rank: _loop(broken, every=3, rank=rank, size=4) and None)
    assert codes == [0, 0]
    for rank in range(2):
        (expected, _), (found, lines) = _told(plain, rank), _told(broken, rank)
        assert found == expected
        assert len(found) == STEPS < lines
    assert _told(plain, 0)[0] == _told(plain, 1)[0]  # of both the mean


def a_loop_that_must_go_saves_leaves_with_143_and_goes_on(folder):
    plain, broken = folder / "plain", folder / "broken"
    plain.mkdir(), broken.mkdir()
    _loop(plain)

    def asked(step):
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    assert in_a_fork(lambda: _loop(broken, every=1000, after=asked)) == 128 + signal.SIGTERM
    assert len(_told(broken)[0]) == 8
    assert in_a_fork(lambda: _loop(broken, every=1000)) == 0
    assert _told(broken) == _told(plain)


def a_job_s_folder_and_key_are_found_and_a_finished_training_is_not_repeated(folder):
    def loop():
        os.environ |= {"FALAJ_CHECKPOINTS": str(folder / "job"), "FALAJ_CHECKPOINT_KEY": "17" * 32}
        _loop(folder, every=0)

    assert in_a_fork(loop) == 0
    assert in_a_fork(loop) == 0
    assert _told(folder)[1] == STEPS


def a_bad_loss_stops_keeps_the_last_good_checkpoint_and_is_told_to_the_run(folder):
    words = {}

    class Run:
        def words(self, told):
            words.update(told)

        def figures(self, *_):
            pass

        def close(self):
            words["closed"] = True

    model = nn.Linear(2, 1)
    saves = Saves(folder=folder / "kept", key=KEY, every_seconds=0, every_steps=1)
    session = Session(Wishes(precision="float32", profile="off"), saves=saves, say=lambda sentence: None)
    session.profile.run = Run()
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    try:
        for scale in session.batches([1.0, 1.0, math.nan]):
            good = model.weight.detach().clone()
            session.step(lambda model, scale: model(torch.ones(3, 2)).pow(2).mean() * scale, scale)
    except LossNotFinite as error:
        stopped = error
    assert stopped.step == 3
    assert words["falaj.training.stopped_at"] == "3"
    assert "step 3" in words["falaj.training.stopped"]
    assert words["closed"]
    assert words["falaj.training.recipe.precision"].startswith("float32\n")
    again = nn.Linear(2, 1)
    other = Session(Wishes(precision="float32", profile="off"), saves=saves, say=lambda sentence: None)
    other.prepare(again, torch.optim.SGD(again.parameters(), lr=0.1))
    assert other.steps == 2
    assert torch.equal(again.weight, good)


def the_best_by_its_metric_is_kept(folder):
    model = nn.Linear(2, 1)
    saves = Saves(folder=folder / "kept", key=KEY)
    session = Session(Wishes(precision="float32", profile="off"), saves=saves)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for metric in (3.0, 1.0, 2.0, 4.0):
        session.step(lambda model: model(torch.ones(3, 2)).pow(2).mean())
        session.checkpoint(now=True, metric=metric)
    session.finish()
    assert saves.open().best().metric == 1.0
