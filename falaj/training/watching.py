"""Ends a process that waits for the others of its training too long: its launcher then starts all of them anew.

A rank that stopped taking part leaves the rest waiting in a collective for ever. What each thread was doing is written down.
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Final

import torch.distributed as processes

from falaj.training.errors import OthersGone

GAVE_UP: Final = 75  # "try again later", as sysexits has it
_LOOKS: Final = 4  # times within the patience


class Watch:
    """Over the stretches in which a training needs its other processes. For one thread; `tell` is called before it ends."""

    def __init__(self, patience: float, tell: Callable[[str], None], end: Callable[[int], None] = os._exit) -> None:
        self.patience, self.tell, self.end = patience, tell, end
        self.since: float | None = None
        self.what = ""
        threading.Thread(target=_look, args=(weakref.ref(self), patience / _LOOKS), name="falaj-watch", daemon=True).start()

    @contextlib.contextmanager
    def over(self, what: str) -> Iterator[None]:
        self.what, self.since = what, time.monotonic()
        try:
            yield
        except RuntimeError as error:
            if not _is_of_the_network(error):
                raise
            first = str(error).strip().splitlines()[0][:300]
            raise OthersGone(
                f"{_who()} cannot go on with {what}: another process of the training ended, or cannot be reached ({first}). "
                "What the others wrote last tells why; started again, all go on from the last checkpoint"
            ) from error
        finally:
            self.since = None

    def give_up(self) -> None:
        said = (
            f"{_who()} has waited {self.patience:g} s for the others in {self.what}: one of them has stopped taking part. "
            "It ends, so that the launcher starts all of them anew"
        )
        self.tell(said)
        sys.stderr.write(f"falaj: {said}. Its threads:\n")
        sys.stderr.flush()
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        self.end(GAVE_UP)


def _look(reference: "weakref.ref[Watch]", every: float) -> None:
    while (watch := reference()) is not None:
        since = watch.since
        if since is not None and time.monotonic() - since > watch.patience:
            watch.give_up()
            return
        del watch
        time.sleep(every)


def _who() -> str:
    together = processes.is_available() and processes.is_initialized()
    return f"process {processes.get_rank()} of {processes.get_world_size()}" if together else "the process"


def _is_of_the_network(error: RuntimeError) -> bool:
    return isinstance(error, processes.DistError) or any(word in str(error).lower() for word in ("gloo", "nccl", "by peer"))
