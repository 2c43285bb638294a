"""Losses that are still on their way from a GPU: nobody waits for one, and none that is bad goes unnoticed."""

import math
from collections import deque
from typing import Any, Final

import torch

from falaj.training.errors import LossNotFinite

_CUDA: Final[Any] = torch.cuda
_BEHIND: Final = 8  # steps that may be under way before the first one's loss is awaited


class Awaited:
    """In the order of steps."""

    def __init__(self) -> None:
        self._under_way: deque[tuple[int, Any, Any]] = deque()

    def add(self, step: int, loss: Any) -> None:
        host = torch.empty((), dtype=torch.float32, pin_memory=True)
        host.copy_(loss.detach(), non_blocking=True)
        copied = _CUDA.Event()
        copied.record()
        self._under_way.append((step, host, copied))

    def look(self, *, at_all: bool = False) -> None:
        """At those that have arrived, and at all that are too far behind; raises at the first bad one."""
        while self._under_way:
            step, host, copied = self._under_way[0]
            if not (at_all or len(self._under_way) > _BEHIND or copied.query()):
                return
            copied.synchronize()
            self._under_way.popleft()
            if not math.isfinite(float(host)):
                self._under_way.clear()
                raise LossNotFinite(step, float(host))
