"""Batches on their way: to the device ahead of time, and apart into smaller ones."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

_CUDA: Final[Any] = torch.cuda
_AHEAD: Final = 2  # batches that are copied while one is computed


def mapped(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and dictionaries with each tensor changed."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {key: mapped(one, change) for key, one in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(one, change) for one in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(mapped(one, change) for one in batch)
    return batch


def tensors_in(batch: Any) -> list[Any]:
    found: list[Any] = []
    mapped(batch, found.append)
    return found


def rows_of(batch: Any) -> int:
    """Of the first tensor that has any."""
    return next((tensor.shape[0] for tensor in tensors_in(batch) if tensor.dim()), 1)


def parts_of(batch: Any, most: int) -> list[tuple[Any, float]]:
    """Pieces of `most` rows at most, each with its share of the rows. What has other lengths goes with every piece."""
    rows = rows_of(batch)
    if not most or rows <= most:
        return [(batch, 1.0)]

    def piece(at: int, end: int) -> Any:
        return mapped(batch, lambda tensor: tensor[at:end] if tensor.dim() and tensor.shape[0] == rows else tensor)

    starts = range(0, rows, most)
    return [(piece(at, min(at + most, rows)), (min(at + most, rows) - at) / rows) for at in starts]


def shape_of(batch: Any) -> tuple[Any, ...]:
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors_in(batch))


def on(device: Any, batch: Any, *, channels_last: bool) -> Any:
    if device.type == "cpu" and not channels_last:
        return batch  # where tensors are made

    def move(tensor: Any) -> Any:
        images = channels_last and tensor.dim() == 4 and tensor.is_floating_point()
        layout = {"memory_format": torch.channels_last} if images else {}
        return tensor.to(device, non_blocking=True, **layout)

    return mapped(batch, move)


def ahead(loader: Iterable[Any], device: Any, *, channels_last: bool) -> Iterator[Any]:
    """The loader's batches on the device. On a GPU they are copied beside the computing, some ahead."""
    if device.type != "cuda":
        for batch in loader:
            yield on(device, batch, channels_last=channels_last)
        return
    stream: Any = _CUDA.Stream(device)
    waiting: deque[tuple[Any, Any]] = deque()
    for batch in loader:
        with torch.cuda.stream(stream):
            pinned = mapped(batch, lambda tensor: tensor if tensor.is_cuda or tensor.is_pinned() else tensor.pin_memory())
            waiting.append((on(device, pinned, channels_last=channels_last), stream.record_event()))
        if len(waiting) > _AHEAD:
            yield _arrived(*waiting.popleft())
    while waiting:
        yield _arrived(*waiting.popleft())


def _arrived(batch: Any, copied: Any) -> Any:
    now = torch.cuda.current_stream()
    now.wait_event(copied)
    for tensor in tensors_in(batch):
        tensor.record_stream(now)  # its memory was taken on the other stream, and must not be given away there too early
    return batch
