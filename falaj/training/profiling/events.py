"""A CUDA device's own time: events between the phases of a step, read when the device has passed them.

What the program does while the device still computes costs no time there, and is not counted: a phase is as long as the device
spent between two marks, waiting for the program included.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import torch

from falaj.training.profiling.names import PHASES

_Event: Final[Any] = torch.cuda.Event
_UNREAD: Final = 64  # steps whose events the device has not passed yet


class EventTimeline:
    """For the training's thread, on the stream that it computes on."""

    cost = 160e-6  # measured on an H200: eight marks, set and read

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._open: list[tuple[int, Any]] = []
        self._done: deque[list[tuple[int, Any]]] = deque()

    def begin(self, phase: int) -> None:
        self._open = []
        self.mark(phase)

    def mark(self, phase: int) -> None:
        event = self._free.pop() if self._free else _Event(enable_timing=True)
        event.record()
        self._open.append((phase, event))

    def end(self) -> None:
        if len(self._done) < _UNREAD:
            self._done.append(self._open)
        self._open = []

    def take(self) -> Sequence[float]:
        spent = [0.0] * len(PHASES)
        while self._done and self._done[0][-1][1].query():
            marks = self._done.popleft()
            for (phase, since), (_, until) in pairwise(marks):
                spent[phase] += since.elapsed_time(until) / 1000
            self._free.extend(event for _, event in marks)
        return spent if any(spent) else ()
