"""Batches as tensors of torch: iterate over them as they are, or let a `DataLoader` with loader processes do so."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from falaj.training.loading.layouts import Layout
from falaj.training.loading.orders import Order, Share
from falaj.training.loading.pools import READERS, Batches
from falaj.training.loading.positions import Place, found, kept
from falaj.training.loading.sources import Array, ArrayGroups


class TorchBatches(IterableDataset):  # type: ignore[misc]
    """Whole batches, read ahead in threads and in pinned memory where there is CUDA. Each iteration is the next epoch, with an
    order of its own where they are shuffled.

    Among the processes of a training each has its share, `rank` of `ranks`; unless they are given, torch's own group says who
    this is. Every process has as many batches of the same sizes; to that end up to `ranks - 1` rows come twice. In a
    `DataLoader(batches, batch_size=None, num_workers=2)` each loader process has its part of that share; tell it the epoch by
    `set_epoch`, for those processes begin anew each time.

    A batch counts as read when it was given out: keep `state_dict` after the step that used it. What is kept of one batch keeps
    the memory of all that were mixed with it; clone what should stay for long.
    """

    def __init__(
        self, source: ArrayGroups, layout: Layout, order: Order, *, rank: int | None = None, ranks: int | None = None
    ) -> None:
        self._rank, self._ranks = rank, ranks
        self._pinned = torch.cuda.is_available()
        self._batches = Batches(source, layout, order, made=self._tensor)
        self._next = self._now = Place()
        self._share()

    def __len__(self) -> int:
        """Batches of an epoch, of this process."""
        share = self._share()
        return self._batches.order.batches(Share(rank=share.rank, ranks=share.ranks))

    def __iter__(self) -> Iterator[Any]:
        place, share = self._next, self._share()
        self._now, self._next = place, Place(epoch=place.epoch + 1)
        readers = READERS if get_worker_info() is None else 1
        with closing(self._batches.of(place.epoch, share, skip=place.batches, readers=readers)) as batches:
            for count, parts in enumerate(batches, place.batches + 1):
                self._now = Place(epoch=place.epoch, batches=count)
                yield self._batches.layout.batch([one if isinstance(one, torch.Tensor) else one.tolist() for one in parts])
        self._now = self._next

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this one."""
        self.begin_at(epoch, 0)

    def begin_at(self, epoch: int, batches: int) -> None:
        """The next iteration is what is left of that epoch after so many batches."""
        self._next = self._now = Place(epoch=epoch, batches=batches)

    def state_dict(self) -> dict[str, Any]:
        return kept(self._now, self._batches.order, self._share())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on behind the last batch that was given out. Raises `Invalid` where the order would be another one."""
        self._next = self._now = found(state, self._batches.order, self._share())

    def _share(self) -> Share:
        rank, ranks, worker = self._rank, self._ranks, get_worker_info()
        if rank is None or ranks is None:
            together = dist.is_available() and dist.is_initialized()
            rank, ranks = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
        if worker is None:
            return Share(rank=rank, ranks=ranks)
        return Share(rank=rank, ranks=ranks, worker=worker.id, workers=worker.num_workers)

    def _tensor(self, array: Array) -> Any:
        if array.dtype == object:
            return array
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        return tensor.pin_memory() if self._pinned and get_worker_info() is None else tensor
