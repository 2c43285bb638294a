"""Several processes with one model each: they begin with the same weights, and every step takes the mean of their gradients.

`sharding` and `splitting` do it otherwise, where a model is too large for one device.
"""

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

import torch
import torch.distributed as processes

from falaj.training.guard import products

_split: Final[Any] = torch.split
_BUCKET: Final = 64 << 20  # bytes that go in one message


class Together(Protocol):
    """How the processes of a training share its work. All of them call the same, in the same order."""

    several: bool
    dealt: bool  # each has samples of its own
    whole: bool  # each has all of the model, and may go back by itself when memory does not suffice

    def take(self, model: Any, optimiser: Any, device: Any) -> None:
        """The model in place, the optimiser on its parameters as they are then."""

    def settle(self, loss: Any, parameters: Iterable[Any]) -> None:
        """After backward: loss and gradients become those of all."""

    def agreed(self, fine: bool, device: Any) -> bool:
        """Whether it is fine for all."""

    def products(self, pairs: Sequence[tuple[Any, Any]]) -> float:
        """The sum of the products of two gradients, of as much as this process compares."""


class Alone:
    several = dealt = False
    whole = True

    def take(self, model: Any, optimiser: Any, device: Any) -> None:
        model.to(device)

    def settle(self, loss: Any, parameters: Iterable[Any]) -> None:
        pass

    def agreed(self, fine: bool, device: Any) -> bool:
        return fine

    def products(self, pairs: Sequence[tuple[Any, Any]]) -> float:
        return products(pairs)


class Copies(Alone):
    """A whole model in each process, and a part of the batch."""

    several = dealt = True
    _words: Any = None

    def take(self, model: Any, optimiser: Any, device: Any) -> None:
        model.to(device)
        begin_alike(model, device)
        # Which gradients there will be is known before a GPU has computed them: nobody waits for it to say so.
        self._words = processes.new_group(backend="gloo") if device.type == "cuda" else None

    def settle(self, loss: Any, parameters: Iterable[Any]) -> None:
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        complete(trained, self._words)
        # A loss that is not finite is so for all: they stop at the same step.
        averaged([loss, *(parameter.grad for parameter in trained if parameter.grad is not None)])

    def agreed(self, fine: bool, device: Any) -> bool:
        votes = torch.tensor([0.0 if fine else 1.0], device=device)
        processes.all_reduce(votes)
        return not float(votes)


def place(kind: str) -> Any:
    """The device of this process."""
    if kind != "cuda":
        return torch.device(kind)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def on_this_machine(otherwise: int = 1) -> int:
    """How many processes of the training, as launchers tell it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "0")) or otherwise


def give_back_memory(device: Any) -> None:
    """What torch keeps for later, to the device that others use as well."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def join(kind: str, patience: float) -> None:
    """Meets the others, where a launcher said that there are some and nobody has met them yet."""
    if not processes.is_initialized():
        processes.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=timedelta(seconds=patience))


def first_says(number: int) -> int:
    """What the first process says; the others' own is not looked at."""
    if not processes.is_initialized():
        return number
    said = [number]
    processes.broadcast_object_list(said, src=0)
    return said[0]


def begin_alike(model: Any, device: Any) -> None:
    """Tensor by tensor: of a model that is too large for the device only one lies there at a time."""
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            there = tensor.to(device)
            processes.broadcast(there, 0)
            if there is not tensor:
                tensor.copy_(there)


def complete(parameters: Sequence[Any], words: Any = None) -> None:
    """A parameter that some process did not use has a gradient of zeros there. One that nobody used has none, and stays."""
    somewhere = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8)
    processes.all_reduce(somewhere, op=processes.ReduceOp.MAX, group=words)
    for parameter, used in zip(parameters, somewhere.tolist(), strict=True):
        if used and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def overflow_alike(scaler: Any, optimiser: Any) -> None:
    """Where the gradients of one process overflowed, all leave the step out."""
    for found in scaler._found_inf_per_device(optimiser).values():
        processes.all_reduce(found, op=processes.ReduceOp.MAX)


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
