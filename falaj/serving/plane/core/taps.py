"""Who watches predictions go by, each in a thread of its own, so that none can hold up an answer.

Which there are is named where everything is put together. What decides by it later is a verdict: `falaj.serving.verdicts`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from falaj.runtimes.engine import Array
from falaj.serving.operations.planes import WatchReport
from falaj.serving.plane.core.gathering import Item
from falaj.serving.plane.core.models import Shape
from falaj.serving.states import Endpoint, Revision, State

log = logging.getLogger(__name__)
Arrays: TypeAlias = Sequence[Array]
MOST_BATCHES: Final = 2048  # that wait for one tap
MOST_BYTES: Final = 64 * 1024 * 1024
_LOOKS: Final = 0.02  # seconds: a tap that looked for batches in vain looks again; nobody is woken on the way of an answer
_WAKES: Final = 0.5
_RESTS: Final = 32  # times as long as it used the processor: three hundredths of a core at most
_OWES: Final = 0.001  # seconds, before it is worth to rest
_PARTS_WITHIN: Final = 1.0


class Seen(NamedTuple):
    """A batch that was answered, but for calls whose caller chose the revision. `endpoint` is the id, `revision` the number;
    arrays are in the order of `shape`, and their first axis counts rows where the model batches."""

    endpoint: str
    revision: int
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    rows: int
    shape: Shape


class Tap(Protocol):
    """Sees a share of what endpoints are asked and answer, batch by batch; `share` is in hundredths of a per cent.

    Whatever is not said to be called on the loop is called in one thread of its own, some time after the answers were sent. It
    does not change the arrays. What it is too slow to see is missed, and told. One that raises is told no more.
    """

    share: int

    def wants(self, endpoint: Endpoint, revision: Revision) -> bool:
        """On the loop: whether it is to see this revision at all. Answers nobody wants to see cost nothing."""
        return True

    def adopt(self, state: State) -> None:
        """This state is served by, or will be in a moment."""

    def see(self, seen: Seen) -> None: ...

    def miss(self, endpoint: str, revision: int, rows: int) -> None:
        """So many rows were answered lately that will not be shown to it."""

    def wake(self) -> None:
        """About twice a second, whether there is something to see or not."""

    def take(self) -> Sequence[WatchReport]:
        """On the loop, about once a second: what it has to say since this was last asked."""
        return ()

    def close(self) -> None:
        """The worker ends, and waits a second at most. What it has to say is taken once more after that."""
        ...


def drawn_of(batch: Sequence[Item], inputs: Arrays, outputs: Arrays) -> tuple[Arrays, Arrays]:
    """The rows of those calls that the split gave to the revision. Several calls are together only along the first axis."""
    kept = np.repeat([not item[0].is_pinned for item in batch], [item[2] for item in batch])
    if not kept.any():
        return (), ()
    return [array[kept] for array in inputs], [array[kept] for array in outputs]


class Watcher:
    """One tap with its thread. `seen` and `missed` count batches; `failed` is 1 once it has."""

    def __init__(self, tap: Tap) -> None:
        self.name, self.share = type(tap).__name__, tap.share
        self.seen = self.missed = self.failed = 0
        self._told = 0, 0, 0
        self._tap = tap
        self._states: deque[State] = deque(maxlen=1)
        self._waiting: deque[tuple[Seen, int]] = deque()
        # Each written by one thread alone.
        self._bytes_given = self._bytes_taken = 0
        self._rows_missed: dict[tuple[str, int], int] = {}
        self._rows_told: dict[tuple[str, int], int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"tap {self.name}", daemon=True)
        self._thread.start()

    # On the loop

    def wants(self, endpoint: Endpoint, revision: Revision) -> bool:
        return not self.failed and self._tap.wants(endpoint, revision)

    def adopt(self, state: State) -> None:
        self._states.append(state)

    def offer(self, seen: Seen) -> None:
        """A place in a queue, where there is one."""
        size = sum([array.nbytes for array in seen.inputs]) + sum([array.nbytes for array in seen.outputs])
        full = len(self._waiting) >= MOST_BATCHES or self._bytes_given - self._bytes_taken + size > MOST_BYTES
        if full or self.failed:
            self.missed += 1
            key = seen.endpoint, seen.revision
            self._rows_missed[key] = self._rows_missed.get(key, 0) + seen.rows
            return
        self._bytes_given += size
        self._waiting.append((seen, size))

    def told(self) -> tuple[int, int, int]:
        """Batches seen and missed, and failures, since this was last asked."""
        now, before = (self.seen, self.missed, self.failed), self._told
        self._told = now
        return now[0] - before[0], now[1] - before[1], now[2] - before[2]

    def take(self) -> Sequence[WatchReport]:
        return self._tap.take()

    def close(self) -> None:
        """What waits is seen as far as there is time for it. Blocks; may be called twice."""
        self._ending.set()
        self._thread.join(_PARTS_WITHIN)

    # In its own thread

    def _work(self) -> None:
        try:
            self._watch()
            self._tell_missed()
            self._tap.close()
        except Exception:
            log.exception("the tap %s failed and is told no more", self.name)
            self.failed = 1
            self._waiting.clear()

    def _watch(self) -> None:
        owed = wakes_at = 0.0
        while self._waiting or not self._ending.is_set():
            began = time.thread_time()
            self._follow()
            if time.monotonic() >= wakes_at:
                self._tell_missed()
                self._tap.wake()
                wakes_at = time.monotonic() + _WAKES
            idle = not self._waiting
            self._see_some()
            owed += (time.thread_time() - began) * _RESTS
            if idle or owed > _OWES:
                self._ending.wait(max(owed, _LOOKS if idle else 0.0))
                owed = 0.0

    def _follow(self) -> None:
        if self._states:
            self._tap.adopt(self._states.popleft())

    def _see_some(self) -> None:
        """For a moment: to look at the processor's clock after each batch would take as long as the tap does."""
        until = time.monotonic() + _OWES
        while self._waiting:
            self._follow()  # a state that came since, and this batch after it
            seen, size = self._waiting.popleft()
            self._tap.see(seen)
            self.seen += 1
            self._bytes_taken += size
            if time.monotonic() > until:
                return

    def _tell_missed(self) -> None:
        for key, rows in list(self._rows_missed.items()):
            if more := rows - self._rows_told.get(key, 0):
                self._rows_told[key] = rows
                self._tap.miss(*key, more)
