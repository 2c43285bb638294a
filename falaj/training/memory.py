"""Running out of memory, the same on every device: a CPU's allocator says it in words of its own, or the kernel ends the
process without any."""

import contextlib
import resource
from collections.abc import Iterator
from typing import Any, Final

import torch

from falaj.training import room

_WORDS: Final = ("DefaultCPUAllocator", "std::bad_alloc")
_SHARE: Final = 0.9  # of what is left: the rest is for everybody else


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Whichever allocator it was, `torch.OutOfMemoryError`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, torch.OutOfMemoryError) or not (isinstance(error, MemoryError) or _is_out_of_memory(error)):
            raise
        raise torch.OutOfMemoryError(str(error)) from error


@contextlib.contextmanager
def bounded(device: Any) -> Iterator[None]:
    """Around what may take too much. On a CPU the allocator refuses it before the kernel would end the process."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    now, left = room.taken(), room.left()
    if device.type == "cpu" and now is not None and left is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (_least(now + int(_SHARE * left), *before), before[1]))
    try:
        with told():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _least(*limits: int) -> int:
    return min(limit for limit in limits if limit != resource.RLIM_INFINITY)


def _is_out_of_memory(error: RuntimeError) -> bool:
    return any(word in str(error) for word in _WORDS)
