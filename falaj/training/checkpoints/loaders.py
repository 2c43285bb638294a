"""Loaders that know how far the training has read, and go on there."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from falaj.base.errors import Invalid
from falaj.training.checkpoints import randomness
from falaj.training.checkpoints.orders import Order, Position

_ORDINARY: Final = (RandomSampler, SequentialSampler, DistributedSampler)

Ahead = Callable[[Iterable[Any]], Iterable[Any]]


def resumable(loader: Any, *, seed: int = 0, ahead: Ahead = iter) -> "ResumableLoader":
    """The same batches in an order that is known, from a plain `DataLoader`; among several processes each has its share.

    A loader with a sampler of the user's own, or of a dataset without indices, is kept as it is: what was read is read again
    and thrown away. That is exact if its order depends on nothing but the random state it begins with.
    """
    if not (isinstance(loader, DataLoader) and isinstance(loader.sampler, _ORDINARY) and loader.batch_size is not None):
        return ResumableLoader(loader, seed=seed, ahead=ahead)
    if isinstance(loader.sampler, RandomSampler) and (loader.sampler.replacement or loader.sampler._num_samples is not None):
        return ResumableLoader(loader, seed=seed, ahead=ahead)
    shuffled = getattr(loader.sampler, "shuffle", isinstance(loader.sampler, RandomSampler))
    dataset: Any = loader.dataset
    worker, workers = (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)
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

    def __iter__(self) -> Iterator[Any]:
        epoch, before = self.position.epoch, self.position.consumed
        with randomness.seeded(self._seed, epoch):
            if self._sampler is not None:
                self._sampler.position = self.position
                iterator = iter(self._ahead(self.loader))
            else:
                iterator = iter(self._ahead(self.loader))
                for _ in range(before):
                    next(iterator, None)
        for count, batch in enumerate(iterator, start=1):
            self.position = Position(epoch=epoch, consumed=before + count * self._samples)
            yield batch
        self.position = Position(epoch=epoch + 1)

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        if self._sampler is not None:
            self._sampler.position = Position()
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        unit = "batches" if self._sampler is None else "samples"
        return {"epoch": self.position.epoch, "consumed": self.position.consumed, "unit": unit, "seed": self._seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = self.state_dict()
        if (state["unit"], state["seed"]) != (own["unit"], own["seed"]):
            raise Invalid(
                f"The checkpoint's data was counted in {state['unit']} and shuffled by seed {state['seed']}; this loader "
                f"counts {own['unit']} and has seed {own['seed']}. Give it the same loader to go on with."
            )
        self.position = Position(epoch=state["epoch"], consumed=state["consumed"])


class _Dealt:
    """Gives what `Order` deals to this process, each with its seed and epoch, by which its augmentations are drawn."""

    def __init__(self, order: Order, worker: int, workers: int) -> None:
        self.position = Position()
        self._order, self._worker, self._workers = order, worker, workers

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        epoch, seed = self.position.epoch, self._order.seed
        for index in self._order.dealt(self.position, self._worker, self._workers):
            yield index, epoch, seed

    def __len__(self) -> int:
        return self._order.count(self.position, self._workers)


class _Unseeded:
    """A dataset by the keys of `_Dealt`. Without loader processes, augmentations draw from the training's own random state."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: tuple[int, int, int]) -> Any:
        return self.dataset[key[0]]

    @property
    def __getitems__(self) -> Callable[[list[tuple[int, int, int]]], Any] | None:
        """Whole batches at once, where the dataset can: torch asks whether there is such a method."""
        return self._several if getattr(self.dataset, "__getitems__", None) else None

    def _several(self, keys: list[tuple[int, int, int]]) -> Any:
        return self.dataset.__getitems__([index for index, _, _ in keys])


class _Seeded(_Unseeded):
    """In a loader process every sample has a random state of its own: which process loads it makes no difference."""

    def __getitem__(self, key: tuple[int, int, int]) -> Any:
        index, epoch, seed = key
        randomness.seed(seed, epoch, index)
        return self.dataset[index]

    def _several(self, keys: list[tuple[int, int, int]]) -> Any:
        index, epoch, seed = keys[0]
        randomness.seed(seed, epoch, index)
        return super()._several(keys)


def _again(loader: Any, sampler: _Dealt) -> Any:
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
        "worker_init_fn",
        "prefetch_factor",
    )
    given = {name: getattr(loader, name) for name in (*kept, "multiprocessing_context", "persistent_workers")}
    dataset: Any = (_Seeded if loader.num_workers else _Unseeded)(loader.dataset)
    return DataLoader(dataset, sampler=sampler, **given)
