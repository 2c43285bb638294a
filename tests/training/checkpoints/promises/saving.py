"""What one process saves and loads."""

import contextlib
import errno
import json
import os
import random
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import torch
from torch import nn

from falaj.base.errors import Invalid
from falaj.training.checkpoints import folders, randomness, sealing
from falaj.training.checkpoints.errors import Mismatched, NoneUsable, Unsaveable
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.checkpoints.loaders import resumable
from falaj.training.checkpoints.recovery import Recovery
from falaj.training.checkpoints.saving import Failed, Saved, checkpoints_from_environment
from falaj.training.checkpoints.state import TrainingState
from tests.training.checkpoints.promises.training import Parts, checkpoints, ended, in_a_fork, network, train


def a_resumed_training_goes_on_bit_for_bit(folder):
    whole, _ = train(folder / "whole", 23)
    first, _ = train(folder / "broken", 10)
    second, _ = train(folder / "broken", 23)
    assert min(second) == 9
    assert first | second == whole
    assert all(first[step] == second[step] for step in set(first) & set(second))


def augmentations_in_loader_processes_go_on_too(folder):
    whole, _ = train(folder / "whole", 10, loader_processes=2)
    first, _ = train(folder / "broken", 5, loader_processes=2)
    second, _ = train(folder / "broken", 10, loader_processes=1)
    assert min(second) == 3
    assert first | second == whole
    assert len(set(whole.values())) == len(whole)


def killed_five_times_the_losses_are_those_of_a_training_that_was_not(folder):
    whole, _ = train(folder / "whole", 60, resume=False)
    choose, losses = random.Random(11), folder / "losses"
    losses.touch()
    for turn in range(1, 6):
        child = in_a_fork(lambda: train(folder / "killed", 60, losses=losses, then=lambda _: time.sleep(0.004)))
        until = choose.randrange(turn * 10 - 6, turn * 10 + 2)
        while max((json.loads(line)[0] for line in losses.read_text().splitlines()), default=0) < until:
            time.sleep(0.001)
        time.sleep(choose.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
    train(folder / "killed", 60, losses=losses)
    seen: dict[int, set[float]] = {}
    for step, loss in map(json.loads, losses.read_text().splitlines()):
        seen.setdefault(step, set()).add(float.fromhex(loss))
    assert seen == {step: {loss} for step, loss in whole.items()}


def killed_at_any_call_of_the_system_a_whole_checkpoint_is_there(folder):
    """The one before or the new one, though only one is kept."""
    calls = ((os, "open"), (os, "write"), (os, "fsync"), (os, "rmdir"), (os, "unlink"), (Path, "rename"), (Path, "mkdir"))
    made, outcomes = Parts(), []
    made.step(torch.ones(8, 6), torch.ones(8, 1))
    for deadly in range(1, 100):
        place = folder / str(deadly)
        store = checkpoints(place, last=1)
        store.save(made.state)
        store.wait()

        def save(deadly=deadly, store=store):
            _die_at(calls, deadly)
            made.state.step = 1
            store.save(made.state)
            store.wait()

        outcomes.append(ended(in_a_fork(save)))
        made.state.step = 0
        found = checkpoints(place).load(made.state)
        assert found.step == (1 if outcomes[-1] == 0 else found.step)
        assert 1 <= len(folders.names(place)) <= 2
        made.state.step = 0
        store.save(made.state)
        store.wait()
        assert len(list(place.iterdir())) == 1
        if outcomes[-1] == 0:
            break
    assert set(outcomes) == {0, -signal.SIGKILL}
    assert len(outcomes) > 15


def _die_at(calls, deadly):
    """At the so manyeth of these calls, before it is done."""
    left = iter(range(deadly - 1, -1, -1))

    def deadly_one(call):
        def called(*arguments, **named):
            if next(left, -1) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return called

    for place, name in calls:
        setattr(place, name, deadly_one(getattr(place, name)))


def every_kind_of_tensor_comes_back_as_it_was(folder):
    model = nn.Module()
    kinds = (
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int8,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
    )
    for at, kind in enumerate(kinds):
        model.register_buffer(f"kind{at}", (torch.arange(24) % 2).reshape(2, 3, 4).to(kind))
    model.register_buffer("scalar", torch.tensor(2.5))
    model.register_buffer("empty", torch.zeros(0, 4))
    model.register_buffer("last", torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
    model.register_buffer("turned", torch.randn(5, 7).t())
    model.register_parameter("large", nn.Parameter(torch.randn(1024, 600)))
    before = {name: one.clone() for name, one in model.state_dict().items()}
    store = checkpoints(folder)
    store.save(TrainingState(model=model))
    assert isinstance(store.wait(), Saved)
    for one in model.state_dict().values():
        one.zero_()
    assert store.load(TrainingState(model=model)) is not None
    for name, one in model.state_dict().items():
        assert one.dtype == before[name].dtype
        now, then = (each.contiguous().reshape(-1).view(torch.uint8) for each in (one, before[name]))
        assert torch.equal(now, then)
        assert one.stride() == before[name].stride()


def what_optimisers_remember_comes_back_as_it_was(folder):
    kinds = (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.LBFGS)
    for kind in (*kinds, lambda own, lr: torch.optim.AdamW(own, lr=torch.tensor(lr), amsgrad=True)):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimiser = kind(model.parameters(), lr=0.1)

        def step(model=model, optimiser=optimiser):
            def loss():
                optimiser.zero_grad()
                found = model(torch.ones(4, 3)).pow(2).mean() + model.weight.abs().sum()
                found.backward()
                return found

            return optimiser.step(loss).item()

        place = folder / str(len(list(folder.iterdir())))
        state, store = TrainingState(model=model, optimisers=optimiser), checkpoints(place)
        store.save(state)  # before the first step, when there is nothing to remember yet
        step()
        step()
        store.save(state)
        store.wait()
        expected = [step(), step(), step()]
        again = nn.Linear(3, 2)
        other = kind(again.parameters(), lr=0.5 if kind is not torch.optim.LBFGS else 0.1)
        store.load(TrainingState(model=again, optimisers=other))
        assert [step(again, other) for _ in range(3)] == expected, kind


def a_changed_byte_anywhere_is_found_and_the_one_before_is_used(folder):
    _, made = train(folder, 6)
    good, newest = sorted(one for one in folder.iterdir())
    choose = random.Random(5)
    for file in sorted(newest.iterdir()):
        content = file.read_bytes()
        places = {
            0,
            15,
            16,
            47,
            48,
            len(content) // 2,
            len(content) - 16,
            len(content) - 1,
            *choose.sample(range(len(content)), 12),
        }
        changed = [content[:at] + bytes([content[at] ^ 1 << choose.randrange(8)]) + content[at + 1 :] for at in sorted(places)]
        for damaged in (*changed, content[:-1], content[:-40], b"", content + b"\0", (good / file.name).read_bytes(), None):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            told = []
            fresh = Parts()
            found = checkpoints(folder, told).load(fresh.state)
            assert found is not None
            assert (found.step, fresh.state.step) == (3, 3)
            assert len(told) == 1
            assert newest.name in told[0]
            assert file.name in told[0]
            file.write_bytes(content)
    fresh = Parts()
    assert checkpoints(folder).load(fresh.state).step == made.state.step


def an_older_checkpoint_does_not_pass_for_a_newer_one(folder):
    train(folder, 6)
    good, newest = sorted(folder.iterdir())
    good.rename(folder / f"00000009{good.name[8:]}")
    told = []
    assert checkpoints(folder, told).load(Parts().state).name == newest.name
    assert len(told) == 1


def a_damaged_one_goes_when_the_next_is_there(folder):
    train(folder, 6)
    good, newest = sorted(folder.iterdir())
    (newest / "part-00000").write_bytes(b"nothing")
    store, made = checkpoints(folder), Parts()
    assert store.load(made.state).name == good.name
    assert newest.exists()
    store.save(made.state)
    store.wait()
    left = folders.names(folder)
    assert newest.name not in left
    assert left[0] == good.name
    assert len(left) == 2


def a_full_disk_leaves_the_old_one_and_the_training_goes_on(folder):
    torch.manual_seed(0)
    made = Parts(model=nn.Sequential(nn.Linear(6, 40_000), nn.Linear(40_000, 1)))  # 1.3 MB, and as much twice by its optimiser
    with _small_disk(folder) as (disk, fill, free):
        told = []
        store = checkpoints(disk, told, last=1)
        made.step(torch.ones(8, 6), torch.ones(8, 1))
        store.save(made.state)
        saved = store.wait()
        assert isinstance(saved, Saved)
        kept = {name: one.clone() for name, one in made.model.state_dict().items()}
        fill()
        for _ in range(2):
            made.state.step += 1
            made.step(torch.ones(8, 6), torch.ones(8, 1))
            store.save(made.state)
            failed = store.wait()
            assert isinstance(failed, Failed)
            assert "full" in failed.why or os.strerror(errno.EFBIG) in failed.why
        assert len(told) == 2
        assert "training goes on" in told[0]
        assert [one.name for one in disk.iterdir() if one.name != "filler"] == [saved.name]
        free()
        store.save(made.state)
        assert isinstance(store.wait(), Saved)
        fill()
        made.state.step += 1
        store.save(made.state)
        assert isinstance(store.wait(), Failed)
        assert store.load(made.state).step == 2
        assert not all(torch.equal(one, kept[name]) for name, one in made.model.state_dict().items())


@contextlib.contextmanager
def _small_disk(folder):
    """With a way to fill it and a way to free it. Where none may be mounted, files may not grow."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        yield (
            disk,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, most)),
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )
        return

    def fill():
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
            file.write(bytes(8 << 20))
            while True:
                file.write(bytes(4096))
        with (disk / "filler").open("r+b") as file:
            file.truncate((disk / "filler").stat().st_size - (2 << 20))  # it begins well and does not come to its end

    try:
        yield disk, fill, lambda: (disk / "filler").unlink()
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def nothing_of_the_training_lies_plain_on_the_disk(folder):
    _, made = train(folder, 6)
    content = b"".join(file.read_bytes() for one in folder.iterdir() for file in one.iterdir())
    assert len(content) > 10_000
    for tensor in made.model.state_dict().values():
        plain = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        for at in range(0, len(plain) - 7, 8):
            assert plain[at : at + 8] not in content or plain[at : at + 8] == bytes(8)
    for word in (b"weight", b"running_mean", b"exp_avg", b"_last_lr", b"float32"):
        assert word not in content
    assert all(file.stat().st_mode & 0o077 == 0 for one in folder.iterdir() for file in one.iterdir())


def steps_go_on_while_a_checkpoint_is_written(folder):
    let_go, put = threading.Event(), sealing.SealedFile._put

    def held(file, content):
        let_go.wait()
        put(file, content)

    sealing.SealedFile._put = held
    made, store = Parts(), checkpoints(folder)
    made.step(torch.ones(8, 6), torch.ones(8, 1))
    expected = {name: one.clone() for name, one in made.model.state_dict().items()}
    store.save(made.state)
    for _ in range(20):
        made.step(torch.ones(8, 6), torch.ones(8, 1))
    assert store.is_busy
    assert store.published() == []
    let_go.set()
    assert isinstance(store.wait(), Saved)
    store.load(made.state)
    assert all(torch.equal(one, expected[name]) for name, one in made.model.state_dict().items())


def a_rhythm_by_the_clock_does_not_wait_for_a_slow_disk(folder):
    let_go, put = threading.Event(), sealing.SealedFile._put

    def held(file, content):
        let_go.wait()
        put(file, content)

    sealing.SealedFile._put = held
    made = Parts()
    with Recovery(checkpoints(folder), made.state, every_seconds=1e-9) as recovery:
        for _ in range(5):
            recovery.stepped()
        let_go.set()
    assert [one.step for one in checkpoints(folder).published()] == [1]


def the_last_and_the_best_stay(folder):
    made, store = Parts(), checkpoints(folder, last=2, best=1)
    for metric in (3.0, 1.0, 2.0, float("nan"), None, 4.0):
        made.state.step += 1
        store.save(made.state, metric=metric)
    store.wait()
    assert [one.step for one in store.published()] == [2, 5, 6]
    assert store.latest().step == 6
    assert store.best().step == 2
    assert store.load(made.state, "best").step == 2
    made.state.step += 1
    store.save(made.state)
    store.wait()
    assert store.latest().step == 3  # it went back to an earlier step, and goes on from there


def another_model_is_refused_before_anything_changes(folder):
    train(folder, 3)
    bigger = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 2))
    for model, words in ((bigger, "other sizes of 4.weight"), (nn.Linear(6, 1), "lacks weight")):
        before = [one.clone() for one in model.state_dict().values()]
        state = TrainingState(model=model)
        assert words in _refusal(Mismatched, lambda state=state: checkpoints(folder).load(state))
        assert all(torch.equal(one, two) for one, two in zip(before, model.state_dict().values(), strict=True))


def what_could_only_be_read_by_running_code_is_refused_when_it_is_saved(folder):
    class Odd:
        def state_dict(self):
            return {"when": threading.Event}

        def load_state_dict(self, state):
            pass

    state = TrainingState(model=nn.Linear(1, 1), others={"odd": Odd()})
    assert "threading.Event" in _refusal(Unsaveable, lambda: checkpoints(folder).save(state))


def another_key_opens_nothing_and_removes_nothing(folder):
    train(folder, 6)
    there = folders.names(folder)
    store, made = checkpoints(folder, key=GivenKey(bytes(32)), last=1), Parts()
    assert "another key" in _refusal(NoneUsable, lambda: store.load(made.state))
    store.save(made.state)
    store.wait()
    assert set(there) < set(folders.names(folder))


def tied_weights_are_saved_once_and_stay_tied(folder):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(1000, 64)
            self.last = nn.Linear(64, 1000, bias=False)
            self.last.weight = self.table.weight

    model, store = Tied(), checkpoints(folder)
    expected = model.table.weight.detach().clone()
    store.save(TrainingState(model=model))
    store.wait()
    assert sum(one.size for one in store.latest().files.values()) < 1.5 * expected.nbytes
    model.table.weight.data.zero_()
    store.load(TrainingState(model=model))
    assert torch.equal(model.last.weight, expected)
    assert model.last.weight is model.table.weight


def a_compiled_model_goes_on_as_a_plain_one(folder):
    plain, compiled = network(), torch.compile(network(), backend="eager")
    optimiser = torch.optim.SGD(compiled.parameters(), lr=0.1, momentum=0.9)
    store = checkpoints(folder)
    store.save(TrainingState(model=compiled, optimisers=optimiser))
    store.load(TrainingState(model=plain, optimisers=torch.optim.SGD(plain.parameters(), lr=0.2, momentum=0.9)))
    for name, one in plain.state_dict().items():
        assert torch.equal(one, compiled._orig_mod.state_dict()[name])


def a_preempted_training_saves_leaves_and_goes_on(folder):
    whole, _ = train(folder / "whole", 12)
    losses = folder / "losses"

    def preempted():
        train(
            folder / "asked", 12, every=0, losses=losses, then=lambda step: step == 7 and os.kill(os.getpid(), signal.SIGTERM)
        )

    assert ended(in_a_fork(preempted)) == 128 + signal.SIGTERM
    assert [one.step for one in checkpoints(folder / "asked").published()] == [8]
    train(folder / "asked", 12, losses=losses)
    assert [float.fromhex(loss) for _, loss in map(json.loads, losses.read_text().splitlines())] == list(whole.values())


def a_loader_in_an_order_of_its_own_goes_on_by_reading_again(folder):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            for at in range(20):
                yield at + random.random()

    class Backwards(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(range(19, -1, -1))

        def __len__(self):
            return 20

    random.seed(4)
    rows = torch.arange(20.0)
    for make in (
        lambda: torch.utils.data.DataLoader(Stream(), batch_size=4),
        lambda: torch.utils.data.DataLoader(rows, batch_size=4, sampler=Backwards()),
        lambda: [rows[at : at + 4] for at in range(0, 20, 4)],
        lambda: torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True, drop_last=True),
    ):
        loader = resumable(make(), seed=9)
        assert len(loader) == 5 if not isinstance(getattr(loader.loader, "dataset", None), Stream) else True
        iterator = iter(loader)
        next(iterator)
        next(iterator)
        kept, before = loader.state_dict(), randomness.captured()
        expected = [batch.tolist() for batch in iterator]
        assert len(expected) == 3
        again = resumable(make(), seed=9)
        again.load_state_dict(kept)
        randomness.restore(before)
        assert [batch.tolist() for batch in again] == expected
        assert (again.position.epoch, again.position.consumed) == (1, 0)


def what_was_fetched_ahead_was_not_read_yet(folder):
    def ahead(loader):
        return iter(list(loader))

    loader = resumable(torch.utils.data.DataLoader(torch.arange(12.0), batch_size=3), ahead=ahead)
    next(iter(loader))
    assert loader.position.consumed == 3


def a_loader_of_another_seed_is_refused(folder):
    train(folder, 3)
    made = Parts()
    made.loader._seed = 6
    assert "seed 5" in _refusal(Invalid, lambda: checkpoints(folder).load(made.state))


def a_job_finds_its_folder_and_its_key_in_its_environment(folder):
    assert checkpoints_from_environment({}) is None
    given = {"FALAJ_CHECKPOINTS": str(folder / "kept"), "FALAJ_CHECKPOINT_KEY": bytes(range(32)).hex()}
    store, made = checkpoints_from_environment(given), Parts()
    store.save(made.state)
    store.wait()
    assert [one.name for one in checkpoints(folder / "kept").published()] == folders.names(folder / "kept")


def _refusal(kind, work):
    """Its words. There is no pytest where this runs."""
    try:
        work()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")
