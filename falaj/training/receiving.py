"""Batches from loader processes, received beside the training: that takes the sender's time as well as this process's.

What arrives lies in memory between processes. It is brought from there into this one's own, which is pinned for a GPU, so that
the training neither fetches its pages nor gives them back.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from falaj.training.batches import mapped

_READY: Final = 2  # batches that lie ready
_END: Final = object()


class _Failed(NamedTuple):
    error: BaseException


def received(loader: Any, device: Any) -> Iterator[Any]:
    """The loader's batches. One that has no processes is iterated as it is."""
    if not getattr(loader, "num_workers", 0):
        yield from loader
        return
    batches = iter(loader)  # its processes begin here, and not in a thread
    ready: queue.Queue[Any] = queue.Queue(_READY)
    is_over = threading.Event()
    receiver = threading.Thread(target=_receive, args=(batches, device, ready, is_over), name="falaj-receive", daemon=True)
    receiver.start()
    try:
        while (batch := ready.get()) is not _END:
            if isinstance(batch, _Failed):
                raise batch.error
            yield batch
    finally:
        is_over.set()
        while receiver.is_alive():  # it may have a batch in hand, or wait for a place to put it
            with contextlib.suppress(queue.Empty):
                ready.get_nowait()
            receiver.join(0.01)


def _receive(batches: Iterator[Any], device: Any, ready: "queue.Queue[Any]", is_over: threading.Event) -> None:
    batch: Any = None
    while batch is not _END and not isinstance(batch, _Failed) and not is_over.is_set():
        try:
            batch = mapped(next(batches, _END), lambda tensor: _brought_in(tensor, device))
        except BaseException as error:  # noqa: BLE001 - for whoever asked for the batch
            batch = _Failed(error)
        ready.put(batch)


def _brought_in(tensor: Any, device: Any) -> Any:
    if device.type == "cuda":
        return tensor if tensor.is_cuda or tensor.is_pinned() else tensor.pin_memory()
    return tensor.clone() if tensor.is_shared() else tensor
