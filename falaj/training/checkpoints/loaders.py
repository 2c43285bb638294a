"""Loaders that know how far the training has read, and go on there."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch.distributed as dist
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from falaj.base.errors import Invalid
from falaj.training.checkpoints import randomness
from falaj.training.checkpoints.orders import Order, Position

_ORDINARY: Final = (RandomSampler, SequentialSampler, DistributedSampler)

_END: Final = object()

Ahead = Callable[[Iterable[Any]], Iterable[Any]]


def has_known_order(loader: Any) -> bool:
    """Whether `resumable` can say which samples come when: of a plain `DataLoader` with one of torch's own samplers."""
    if not (isinstance(loader, DataLoader) and isinstance(loader.sampler, _ORDINARY) and loader.batch_size is not None):
        return False
    drawn = isinstance(loader.sampler, RandomSampler)
    return not (drawn and (loader.sampler.replacement or loader.sampler._num_samples is not None))


def resumable(loader: Any, *, seed: int = 0, ahead: Ahead = iter, dealt: bool = True) -> "ResumableLoader":
    """The same batches in an order that is known, from a plain `DataLoader`; among several processes each has its share,
    unless they are not `dealt` out and each has all.

    A loader with a sampler of the user's own, or of a dataset without indices, is kept as it is: what was read is read again
    and thrown away. That is exact if its order depends on nothing but the random state it begins with. One that can `begin_at`
    an epoch and a number of batches does so.
    """
    if not has_known_order(loader):
        return ResumableLoader(loader, seed=seed, ahead=ahead)
    shuffled = getattr(loader.sampler, "shuffle", isinstance(loader.sampler, RandomSampler))
    dataset: Any = loader.dataset
    several = dealt and dist.is_available() and dist.is_initialized()
    worker, workers = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    sampler = _Dealt(Order(length=len(dataset), seed=seed, shuffled=shuffled), worker, workers)
    return ResumableLoader(
        _again(loader, sampler), seed=seed, sampler=sampler, samples=loader.batch_size * workers, ahead=ahead
    )


class ResumableLoader:
    """Iterates over what is left of the present epoch; the next iteration is the next epoch.

    A batch counts as read when it was given out, so save after the step that used it. What fetches batches ahead, such as a
    copy to the GPU, is given as `ahead`: what lies ready there was not read yet.
    """

    def __init__(
        self, loader: Any, *, seed: int = 0, sampler: "_Dealt | None" = None, samples: int = 1, ahead: Ahead = iter
    ) -> None:
        self.loader = loader
        self.position = Position()
        self._seed, self._sampler, self._samples, self._ahead = seed, sampler, samples, ahead
        self._begins = hasattr(loader, "begin_at")  # anywhere in any epoch, by itself: see `loading`

    def __iter__(self) -> Iterator[Any]:
        epoch, before = self.position.epoch, self.position.consumed
        with randomness.seeded(self._seed, epoch), _put_off():
            if self._sampler is not None:
                self._sampler.position = self.position
            if self._begins:
                self.loader.begin_at(epoch, before)
            iterator = iter(self._ahead(self.loader))
            again = 0 if self._sampler is not None or self._begins else before
            for _ in range(again):
                next(iterator, None)
            if not again:  # what draws an order does it when its first batch is asked for, at the latest
                batch = next(iterator, _END)
        if again:
            batch = next(iterator, _END)
        # Loaded in this process, batches draw from seeds of their own too; the training's random numbers do not notice.
        apart = self._sampler is not None and not self.loader.num_workers and self.loader.dataset.draws
        count = 0
        while batch is not _END:
            count += 1
            self.position = Position(epoch=epoch, consumed=before + count * self._samples)
            yield batch
            with randomness.kept() if apart else contextlib.nullcontext():
                batch = next(iterator, _END)
        self.position = Position(epoch=epoch + 1)

    def use(self, *, workers: int, ahead: int) -> None:
        """From the next iteration on so many loader processes, each so many batches ahead; the batches stay the same."""
        if self._sampler is None:
            raise Invalid("This loader has an order of its own and stays as it was made.")
        changed = {"num_workers": workers, "prefetch_factor": ahead if workers else None, "persistent_workers": workers > 0}
        self.close()
        self.loader = _again(self.loader, self._sampler, **changed)

    def close(self) -> None:
        """Loader processes that stay from epoch to epoch end now, not whenever nobody holds them any more."""
        if (held := getattr(self.loader, "_iterator", None)) is not None:
            held._shutdown_workers()
            self.loader._iterator = None

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        if self._sampler is not None:
            self._sampler.position = Position()
        return len(self.loader)

    def turn(self) -> None:
        """To the next epoch, if nothing is left of this one: for who counts batches and does not ask for one too many."""
        if self.nothing_follows(self.position):
            self.position = Position(epoch=self.position.epoch + 1)

    def nothing_follows(self, position: Position) -> bool:
        """Known of a known order; any other has to be read to its end."""
        if self._begins:
            return position.consumed >= len(self.loader)
        if self._sampler is None:
            return False
        self._sampler.position = position
        return not len(self.loader)

    @property
    def unit(self) -> str:
        return "batches" if self._sampler is None else "samples"

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.position.epoch, "consumed": self.position.consumed, "unit": self.unit, "seed": self._seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = self.state_dict()
        if (state["unit"], state["seed"]) != (own["unit"], own["seed"]):
            raise Invalid(
                f"The checkpoint's data was counted in {state['unit']} and shuffled by seed {state['seed']}; this loader "
                f"counts {own['unit']} and has seed {own['seed']}. Give it the same loader to go on with."
            )
        self.position = Position(epoch=state["epoch"], consumed=state["consumed"])


class _Dealt:
    """Gives what `Order` deals to this process, each with seed and epoch: by those of its first sample a batch draws."""

    def __init__(self, order: Order, worker: int, workers: int) -> None:
        self.position = Position()
        self._order, self._worker, self._workers = order, worker, workers

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        epoch, seed = self.position.epoch, self._order.seed
        for index in self._order.dealt(self.position, self._worker, self._workers):
            yield index, epoch, seed

    def __len__(self) -> int:
        return self._order.count(self.position, self._workers)


class _Seeded:
    """A dataset by the keys of `_Dealt`. Every batch has a random state of its own: which process loads it, this one or
    another, makes no difference."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.draws = dataset, not _is_plain(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int, int]) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: list[tuple[int, int, int]]) -> Any:
        if self.draws:
            index, epoch, seed = keys[0]
            randomness.seed(seed, epoch, index)
        indices = [one for one, _, _ in keys]
        if several := getattr(self.dataset, "__getitems__", None):
            return several(indices)
        return [self.dataset[one] for one in indices]


def _is_plain(dataset: Any) -> bool:
    """Whether it is known to draw no random numbers: to seed and to restore three generators takes longer than to read rows."""
    if type(dataset) is Subset:
        return _is_plain(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(_is_plain(one) for one in dataset.datasets)
    return type(dataset) in (TensorDataset, list, tuple, range)


@contextlib.contextmanager
def _put_off() -> Iterator[None]:
    """The signal to go reaches this process afterwards, and loader processes that begin meanwhile not before they heed it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _heed(training: int) -> None:
    """Goes when the training itself says so, and at nobody else's word."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != training:
        pass
    os._exit(0)


class _Begins:
    """A loader process's first act, and then the user's own: a job that must go is told to all its processes, and these
    have to serve until the training has saved. They end with it."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_heed, args=(os.getppid(),), name="falaj-heed", daemon=True).start()
        if self.then is not None:
            self.then(worker)


def _again(loader: Any, sampler: _Dealt, **changed: Any) -> Any:
    """The loader anew, with another sampler: torch does not let one be exchanged."""
    if isinstance(loader.dataset, IterableDataset):
        raise Invalid("A dataset without indices has no sampler to exchange.")
    kept = (
        "batch_size",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "prefetch_factor",
        "multiprocessing_context",
        "persistent_workers",
    )
    given = {name: getattr(loader, name) for name in kept} | changed
    then = loader.worker_init_fn.then if isinstance(loader.worker_init_fn, _Begins) else loader.worker_init_fn
    dataset: Any = loader.dataset if isinstance(loader.dataset, _Seeded) else _Seeded(loader.dataset)
    return DataLoader(dataset, sampler=sampler, worker_init_fn=_Begins(then), **given)
