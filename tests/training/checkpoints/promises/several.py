"""What several processes save, as many or fewer or more go on with. By gloo, each process a fork."""

import errno
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from falaj.training.checkpoints import folders, sealing
from falaj.training.checkpoints.errors import NoneUsable
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.checkpoints.recovery import Recovery
from falaj.training.checkpoints.saving import Failed, Saved
from falaj.training.checkpoints.state import TrainingState
from tests.training.checkpoints.promises.training import checkpoints
from tests.training.processes import together

ROWS = torch.linspace(-2, 2, 5 * 8 * 6).reshape(5, 8, 6).sin()


def _network(dropout=0.0):
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(6, 33), nn.LayerNorm(33), nn.Dropout(dropout), nn.GELU(), nn.Linear(33, 5))


def _parts(kind, dropout=0.0, normal=False):
    model = _network(dropout)
    if normal:
        model = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Linear(9, 5))
    if kind == "ddp" and dist.is_initialized():
        model = DistributedDataParallel(model)
    if kind == "fsdp":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
    return model, optimiser, scheduler, TrainingState(model=model, optimisers=optimiser, schedulers=scheduler)


def _train(parts, steps):
    """Each process its rows of the batch; the loss over all of them."""
    model, optimiser, scheduler, state = parts
    rank, count = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    losses = []
    for _ in range(steps):
        rows = ROWS[state.step % len(ROWS)][rank::count]
        loss = (model(rows) - rows[:, :5].cos()).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        scheduler.step()
        state.step += 1
        whole = loss.detach().clone()
        if dist.is_initialized():
            dist.all_reduce(whole)
        losses.append(whole.item() / count)
    return losses


def _everything(parts):
    """Model and optimiser, whole, as bytes that can be compared."""
    captured = parts[3].captured(0, 1).tensors
    return {key: (one.full_tensor() if isinstance(one, DTensor) else one).detach().clone() for key, one in captured.items()}


def _same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def _loaded_and_saved(kind, place):
    def work(rank):
        parts, store = _parts(kind), checkpoints(place)
        if folders.names(place):
            assert store.load(parts[3]) is not None
        begun = _everything(parts)
        _train(parts, 2)
        store.save(parts[3])
        assert isinstance(store.wait(), Saved)
        return {"begun": begun, "saved": _everything(parts), "step": parts[3].step}

    return work


def _goes_through(folder, *turns):
    """Each saves what the next goes on from; `turns` are how many processes of which kind."""
    before = None
    for count, kind in turns:
        _, given = together(folder, count, _loaded_and_saved(kind, folder / "kept"))
        for one in given[:count]:
            if before is not None:
                assert one["step"] == before["step"] + 2
                assert _same(one["begun"], before["saved"])
        before = given[0]


def what_two_of_ddp_saved_one_goes_on_with_and_two_again(folder):
    _goes_through(folder, (2, "ddp"), (1, "ddp"), (2, "ddp"))


def what_two_of_fsdp_saved_one_goes_on_with_and_two_again(folder):
    _goes_through(folder, (2, "fsdp"), (1, "fsdp"), (2, "fsdp"))


def what_three_of_fsdp_saved_two_of_ddp_go_on_with_and_the_other_way_round(folder):
    _goes_through(folder, (3, "fsdp"), (2, "ddp"), (3, "fsdp"))


def the_losses_are_the_same_whatever_goes_on(folder):
    """But for the order in which sums are taken."""

    def reference(rank):
        return _train(_parts("ddp"), 9)

    _, [whole, *_] = together(folder, 2, reference)
    for count, kind in ((2, "fsdp"), (1, "ddp"), (2, "fsdp")):

        def work(rank, kind=kind):
            parts, store = _parts(kind), checkpoints(folder / "kept")
            store.load(parts[3])
            begun = parts[3].step
            losses = _train(parts, 3)
            store.save(parts[3])
            store.wait()
            return begun, losses

        _, given = together(folder, count, work)
        for begun, losses in given[:count]:
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(whole[begun : begun + 3]), rtol=1e-4, atol=1e-5)


def as_many_as_before_go_on_bit_for_bit(folder):
    for kind in ("ddp", "fsdp"):

        def work(rank, kind=kind):
            torch.manual_seed(100 + rank)
            parts, store = _parts(kind, dropout=0.4), checkpoints(folder / kind)
            torch.manual_seed(100 + rank)
            resumed = store.load(parts[3])
            losses = _train(parts, 3 if resumed is None else 2)
            if resumed is None:
                store.save(parts[3])
                losses += _train(parts, 2)
                store.wait()
            return losses

        _, whole = together(folder, 2, work)
        _, again = together(folder, 2, work)
        assert [one[3:] for one in whole] == again


def every_process_writes_its_share(folder):
    def work(rank):
        parts, store = _parts("ddp"), checkpoints(folder / "kept")
        _train(parts, 1)
        store.save(parts[3])
        store.wait()
        return [one.size for one in store.latest().files.values()]

    _, [sizes, _] = together(folder, 2, work)
    assert len(sizes) == 2
    assert max(sizes) < 3 * min(sizes)


def running_averages_are_those_of_the_first_process(folder):
    def work(rank):
        parts, store = _parts("ddp", normal=True), checkpoints(folder / "kept")
        _train(parts, 2)
        store.save(parts[3])
        store.wait()
        own = parts[0].module[1].running_mean.clone()
        store.load(parts[3])
        return own, parts[0].module[1].running_mean.clone()

    _, [(first, loaded), (second, also)] = together(folder, 2, work)
    assert not torch.equal(first, second)
    assert torch.equal(loaded, first)
    assert torch.equal(also, first)


def one_that_is_asked_to_go_takes_all_with_it_at_one_step(folder):
    def work(rank):
        parts, store = _parts("ddp"), checkpoints(folder / "kept")
        with Recovery(store, parts[3], every_seconds=0) as recovery:
            while not recovery.should_stop:
                _train(parts, 1)
                parts[3].step -= 1
                if rank == 1 and parts[3].step == 4:
                    os.kill(os.getpid(), signal.SIGTERM)
                recovery.stepped()
            assert [one.step for one in store.published()] == [parts[3].step] == [6]
            recovery.leave()

    codes, _ = together(folder, 2, work)
    assert codes == [128 + signal.SIGTERM] * 2


def a_rhythm_by_the_clock_is_one_for_all(folder):
    def work(rank):
        parts, store = _parts("fsdp"), checkpoints(folder / "kept", last=100)
        with Recovery(store, parts[3], every_seconds=1e-9) as recovery:
            for _ in range(12):
                _train(parts, 1)
                parts[3].step -= 1
                recovery.stepped()
        return [one.step for one in store.published()]

    _, [steps, _] = together(folder, 2, work)
    assert steps[0] == 2
    assert len(steps) >= 2


def a_full_disk_of_one_is_told_by_all_and_the_next_is_saved(folder):
    def work(rank):
        put, told = sealing.SealedFile._put, []
        parts, store = _parts("fsdp"), checkpoints(folder / "kept", told)

        def full(file, content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        _train(parts, 1)
        store.save(parts[3])
        assert isinstance(store.wait(), Saved)
        if rank == 1:
            sealing.SealedFile._put = full
        store.save(parts[3])
        failed = store.wait()
        assert isinstance(failed, Failed)
        assert "process 1" in failed.why
        assert "full" in failed.why
        assert len(told) == (rank == 0)
        sealing.SealedFile._put = put
        store.save(parts[3])
        assert isinstance(store.wait(), Saved)
        return len(store.published())

    _, given = together(folder, 2, work)
    assert given == [2, 2]


def one_that_dies_while_saving_leaves_the_one_before_and_the_others_are_told(folder):
    def work(rank):
        told = []
        parts, store = _parts("fsdp"), checkpoints(folder / "kept", told)
        _train(parts, 1)
        store.save(parts[3])
        assert isinstance(store.wait(), Saved)
        if rank == 1:
            sealing.SealedFile._put = lambda file, content: os.kill(os.getpid(), signal.SIGKILL)
        _train(parts, 1)
        store.save(parts[3])
        assert isinstance(store.wait(), Failed)
        assert "training goes on" in told[0]
        os._exit(0)

    codes, _ = together(folder, 2, work)
    assert codes == [0, -signal.SIGKILL]
    parts = _parts("ddp")
    assert checkpoints(folder / "kept").load(parts[3]).step == 1


def damage_that_one_of_them_sees_makes_all_use_the_one_before(folder):
    def work(rank):
        parts, store, told = _parts("fsdp"), checkpoints(folder / "kept"), []
        for _ in range(2):
            _train(parts, 1)
            store.save(parts[3])
            store.wait()
        if rank == 0:
            part = folder / "kept" / store.latest().name / "part-00001"
            part.write_bytes(part.read_bytes()[:-1] + b"?")
        dist.barrier()
        found = checkpoints(folder / "kept", told).load(parts[3])
        try:
            checkpoints(folder / "kept", key=GivenKey(bytes(32))).load(parts[3])
        except NoneUsable:
            return found.step, parts[3].step, len(told)

    _, given = together(folder, 2, work)
    assert given == [(1, 1, 1), (1, 1, 0)]
