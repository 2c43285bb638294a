"""A plain loop through a session goes on after whatever happened to it, with the losses of one to which nothing happened."""

import concurrent.futures
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


def _loop(
    folder, *, every=1, after=lambda step: None, rank=0, size=8, wishes=None, workers=0, anew=False, looks=None, epochs=3
):
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

    def made():
        return torch.utils.data.DataLoader(_Rows(), batch_size=size, shuffle=True, num_workers=workers)

    loader = made()
    if looks == "before":
        _look(folder, session, model)
    for _ in session.epochs(epochs):
        for rows, wanted in session.batches(made() if anew else loader):
            loss = session.step(_loss_of, rows, wanted)
            with open(folder / f"losses-{rank}", "a") as file:
                file.write(f"{session.steps} {loss.item().hex()} {scheduler.get_last_lr()[0].hex()}\n")
            after(session.steps)
        if looks != "last":
            scheduler.step()
        if looks in ("first", "last"):
            _look(folder, session, model)
        if looks == "last":
            scheduler.step()
    session.finish()
    return session, model


def _look(folder, session, model):
    """An evaluation of four batches, broken off in the last but one."""
    with open(folder / "looked", "a") as file, torch.no_grad():
        for at, (rows, _) in enumerate(session.batches(torch.utils.data.DataLoader(_Rows(), batch_size=12))):
            file.write(f"{session.steps} {at} {rows[:, 0].sum().item().hex()}\n")
            file.flush()
            if (folder / "go").exists() and (session.steps, at) == (12, 1):
                (folder / "go").unlink()
                os.kill(os.getpid(), signal.SIGTERM)
            if at == 2:
                break


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


def a_loader_that_is_made_anew_for_each_epoch_is_as_good_as_one(folder):
    once, broken = folder / "once", folder / "broken"
    once.mkdir(), broken.mkdir()
    _loop(once)
    for at in (4, 7, 13):  # also right after an epoch
        assert in_a_fork(lambda at=at: _loop(broken, anew=True, after=_killed_at(at)[0])) == -signal.SIGKILL
    assert in_a_fork(lambda: _loop(broken, anew=True)) == 0
    assert _told(broken)[0] == _told(once)[0]


def an_evaluation_before_the_first_epoch_is_not_taken_for_the_training(folder):
    plain, broken = folder / "plain", folder / "broken"
    plain.mkdir(), broken.mkdir()
    _loop(plain, looks="before")
    assert in_a_fork(lambda: _loop(broken, looks="before", after=_killed_at(9)[0])) == -signal.SIGKILL
    assert in_a_fork(lambda: _loop(broken, looks="before")) == 0
    assert _told(broken)[0] == _told(plain)[0]
    looked = (broken / "looked").read_text().splitlines()
    assert [line.split()[1] for line in looked] == ["0", "1", "2"] * 2


def an_epoch_has_an_order_of_its_own_though_nobody_says_which_one_it_is(folder):
    session, _ = _fed()
    orders = []
    for _ in range(2):
        loader = torch.utils.data.DataLoader(range(32), batch_size=8, shuffle=True)
        orders.append(torch.cat(list(session.batches(loader))).tolist())
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(32))


def _fed(saves=None):
    model = nn.Linear(1, 1)
    session = Session(Wishes(precision="float32", profile="off"), saves=saves, say=lambda sentence: None)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return session, lambda: session.step(lambda model: model(torch.ones(1, 1)).mean())


def an_evaluation_begins_at_its_start_each_time_and_a_training_goes_on(folder):
    session, step = _fed()
    training, evaluation = (torch.utils.data.DataLoader(range(6), batch_size=2) for _ in range(2))
    trained, looked = [], []
    for _ in session.epochs(4):
        for batch in session.batches(training):
            step()
            trained.append(batch.tolist())
            if len(trained) % 2 == 0:
                break
        looked.append(next(iter(session.batches(evaluation))).tolist())
    assert trained == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5]][: len(trained)]
    assert len(trained) == 6
    assert looked == [[0, 1]] * 4


def loaders_that_differ_in_what_they_make_of_their_rows_are_two(folder):
    session, _ = _fed()
    rows = list(range(4))
    for times in (1, 100):
        loader = torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=lambda batch, times=times: sum(batch) * times)
        assert list(session.batches(loader)) == [6 * times]


def two_loaders_that_take_part_in_a_step_go_on_together(folder):
    saves = Saves(folder=folder / "kept", key=KEY, every_seconds=0, every_steps=1)

    def loop(stop):
        torch.manual_seed(5)
        session, step = _fed(saves)
        loaders = [torch.utils.data.DataLoader(range(8), batch_size=2, shuffle=True) for _ in range(2)]
        for _ in session.epochs(2):
            for both in zip(*map(session.batches, loaders), strict=False):
                step()
                seen.write(f"{session.steps} {[one.tolist() for one in both]}\n")
                seen.flush()
                if session.steps == stop + 1:
                    os.kill(os.getpid(), signal.SIGKILL)

    with open(folder / "whole", "w") as seen:
        assert in_a_fork(lambda: loop(99)) == 0
    saves = Saves(folder=folder / "broken", key=KEY, every_seconds=0, every_steps=1)
    with open(folder / "pieces", "w") as seen:
        for stop in (1, 3, 6):
            assert in_a_fork(lambda stop=stop: loop(stop)) == -signal.SIGKILL
        assert in_a_fork(lambda: loop(99)) == 0
    whole, pieces = (
        dict(line.split(" ", 1) for line in (folder / name).read_text().splitlines()) for name in ("whole", "pieces")
    )
    assert len(whole) == 8
    assert pieces == whole


def an_evaluation_is_left_when_the_job_must_go_and_is_made_again_whole(folder):
    for looks in ("first", "last"):  # with respect to the rate, which falls once an epoch
        plain, broken = folder / f"plain-{looks}", folder / f"broken-{looks}"
        plain.mkdir(), broken.mkdir()
        _loop(plain, looks=looks)
        (broken / "go").touch()
        assert in_a_fork(lambda: _loop(broken, every=1000, looks=looks)) == 128 + signal.SIGTERM  # noqa: B023
        assert (broken / "looked").read_text().splitlines()[-1].startswith("12 1 ")
        assert in_a_fork(lambda: _loop(broken, every=1000, looks=looks)) == 0  # noqa: B023
        assert _told(broken) == _told(plain)
        kept = (plain / "looked").read_text().splitlines()
        assert (broken / "looked").read_text().splitlines() == kept[:5] + kept[3 if looks == "last" else 6 :]


def two_leave_an_evaluation_together_though_one_alone_was_told(folder):
    def work(rank):
        torch.manual_seed(rank)
        session, step = _fed(Saves(folder=folder / "kept", key=KEY))
        for _ in session.epochs(2):
            for _ in session.batches(torch.utils.data.DataLoader(range(8), batch_size=2)):
                step()
            for at, _ in enumerate(session.batches(torch.utils.data.DataLoader(range(40), batch_size=2))):
                (folder / f"at-{rank}").write_text(f"{session.steps} {at}")
                if rank == 1 and at == 3 and asked:
                    os.kill(os.getpid(), signal.SIGTERM)
        session.finish()
        return session.steps

    asked = True
    codes, _ = together(folder, 2, work)
    assert codes == [128 + signal.SIGTERM] * 2
    assert {(folder / f"at-{rank}").read_text() for rank in range(2)} == {"2 4"}
    asked = False
    assert together(folder, 2, work) == ([0, 0], [4, 4])


def a_training_in_another_thread_saves_and_goes_on(folder):
    def loop():
        _loop(folder, every=4)

    _in_a_thread(loop)
    _in_a_thread(loop)
    assert _told(folder)[1] == STEPS


def _in_a_thread(work):
    """As Ray Train runs its function."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()


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


def processes_that_were_found_for_a_loader_serve_the_one_made_after_it(folder):
    model = nn.Linear(2, 1)
    session = Session(Wishes(precision="float32", profile="off"), hardware=Hardware(cores=2), say=lambda sentence: None)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0))
    elsewhere = {0: [], 1: []}
    for epoch in session.epochs(2):
        for given, in_a_process in session.batches(torch.utils.data.DataLoader(_Slow(), batch_size=4, shuffle=True)):
            session.step(lambda model, given: model(given).mean(), given)
            elsewhere[epoch].append(bool(in_a_process.all()))
    session.finish()
    assert not elsewhere[0][0]
    assert elsewhere[0][-1] == elsewhere[1][0]
    assert len(set(elsewhere[1])) == 1


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


def a_finished_training_goes_on_where_more_epochs_are_asked_for(folder):
    plain, longer = folder / "plain", folder / "longer"
    plain.mkdir(), longer.mkdir()
    _loop(plain, every=0, epochs=3)
    for epochs in (1, 3):
        assert in_a_fork(lambda epochs=epochs: _loop(longer, every=1000, epochs=epochs)) == 0
    assert _told(longer) == _told(plain)


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
