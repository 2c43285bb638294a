"""Copies of tensors in host memory, made in one go so that the training may go on changing the originals."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """The part of it that this process holds."""
    found: Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return found.detach()


class Staging:
    """Keeps its copies' memory from one time to the next: to take gigabytes anew costs more than to fill them."""

    def __init__(self) -> None:
        self._copies: dict[str, Tensor] = {}

    def copy(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What was given out last time is overwritten."""
        held, self._copies = self._copies, {}
        devices = set()
        for name, tensor in tensors.items():
            original = local(tensor)
            copy = held.get(name)
            if copy is None or copy.shape != original.shape or copy.dtype != original.dtype:
                copy = torch.empty(original.shape, dtype=original.dtype, pin_memory=original.is_cuda)
            copy.copy_(original, non_blocking=original.is_cuda)
            if original.is_cuda:
                devices.add(original.device)
            self._copies[name] = copy
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
        return dict(self._copies)
