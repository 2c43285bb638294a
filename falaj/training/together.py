"""Several processes with one model each: they begin with the same weights, and every step takes the mean of their gradients."""

import os
from collections.abc import Iterable
from typing import Any, Final

import torch
import torch.distributed as processes

_split: Final[Any] = torch.split
_BUCKET: Final = 64 << 20  # bytes that go in one message


def place(kind: str) -> Any:
    """The device of this process."""
    if kind != "cuda":
        return torch.device(kind)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def join(kind: str) -> None:
    """Meets the others, where a launcher said that there are some and nobody has met them yet."""
    if not processes.is_initialized():
        processes.init_process_group("nccl" if kind == "cuda" else "gloo")


def begin_alike(model: Any) -> None:
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            processes.broadcast(tensor, 0)


def averaged(tensors: Iterable[Any]) -> None:
    """Each becomes the mean over all processes, which must give the same shapes in the same order."""
    waiting: list[Any] = []
    for tensor in tensors:
        if waiting and (sum(one.nbytes for one in waiting) > _BUCKET or waiting[0].dtype != tensor.dtype):
            _average(waiting)
            waiting = []
        waiting.append(tensor)
    if waiting:
        _average(waiting)


def _average(tensors: list[Any]) -> None:
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    processes.all_reduce(flat)
    flat /= processes.get_world_size()
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, mean in zip(tensors, _split(flat, sizes), strict=True):
        tensor.copy_(mean.view_as(tensor))


def agreed(fine: bool, device: Any) -> bool:
    """Whether it is fine for all."""
    votes = torch.tensor([0.0 if fine else 1.0], device=device)
    processes.all_reduce(votes)
    return not float(votes)
