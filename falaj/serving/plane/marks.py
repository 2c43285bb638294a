"""What a worker was doing when it died or hung: a few numbers in memory that it shares with its supervisor.

A worker writes into its own place alone; writing costs less than a tenth of a microsecond.
"""

import mmap
import os
from typing import Final

BEAT, INLINE, THREAD, SINCE, THREADS = range(5)
_NUMBERS: Final = 5
_SIZE: Final = 8 * _NUMBERS


class Mark:
    """One worker's place: `numbers` holds, by the indices above, when its loop last came round (ns, monotonic), the revision
    that its loop runs now, the one that one of its threads runs, since when that thread does, and how many threads run any.
    0 stands for none."""

    def __init__(self, memory: memoryview) -> None:
        self.numbers: Final = memory.cast("q")

    def clear(self) -> None:
        for index in range(_NUMBERS):
            self.numbers[index] = 0


class Marks:
    """The places of all workers, in memory without a name; `descriptor` is inherited by the workers."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: Final = descriptor
        self._memory = mmap.mmap(descriptor, 0)

    @classmethod
    def make(cls, places: int) -> "Marks":
        descriptor = os.memfd_create("falaj-marks", os.MFD_CLOEXEC)
        os.truncate(descriptor, places * _SIZE)
        return cls(descriptor)

    def place(self, index: int) -> Mark:
        return Mark(memoryview(self._memory)[index * _SIZE : (index + 1) * _SIZE])


def number_of(revision: str) -> int:
    """A revision as a number that fits into a place, from the random end of its id."""
    return int(revision[-15:], 16) or 1
