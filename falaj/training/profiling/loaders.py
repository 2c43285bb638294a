"""A loader as the profile sees it: how many processes it has, and whether it may be given others."""

from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from falaj.base.values import value
from falaj.training.checkpoints.loaders import ResumableLoader

_AHEAD = 2  # batches that each process prepares ahead, as torch has it where nobody says


@value
class Loading:
    workers: int | None = None
    stream: bool = False
    pinned: bool = False


def seen(loader: Any) -> Loading:
    inner = _inner(loader)
    if not isinstance(inner, DataLoader):
        return Loading()
    return Loading(workers=inner.num_workers, stream=isinstance(inner.dataset, IterableDataset), pinned=inner.pin_memory)


def give(loader: Any, *, workers: int | None = None, pinned: bool | None = None) -> bool:
    """Before its first iteration. Whether it was done: a stream would repeat itself in each process."""
    inner = _inner(loader)
    if not isinstance(inner, DataLoader) or isinstance(inner.dataset, IterableDataset):
        return False
    if pinned is not None:
        inner.pin_memory = pinned
    if workers is not None:
        inner.num_workers = workers
        inner.prefetch_factor = (inner.prefetch_factor or _AHEAD) if workers else None
    return True


def _inner(loader: Any) -> Any:
    return loader.loader if isinstance(loader, ResumableLoader) else loader
