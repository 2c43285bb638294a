"""Who watches predictions go by, each in a thread of its own, so that none can hold up an answer.

Which there are is named where everything is put together. What decides by it later is a verdict: `falaj.serving.verdicts`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from falaj.runtimes.engine import Array

log = logging.getLogger(__name__)
MOST_BATCHES: Final = 256  # that wait for one tap
MOST_BYTES: Final = 64 * 1024 * 1024
_LOOKS: Final = 0.02  # seconds: a tap that looked for batches in vain looks again; nobody is woken on the way of an answer
_RESTS: Final = 9  # times as long as it used the processor: a tenth of a core at most
_OWES: Final = 0.001  # seconds, before it is worth to rest
_PARTS_WITHIN: Final = 1.0
Seen: TypeAlias = tuple[str, int, Sequence[Array], Sequence[Array], int]


class Tap(Protocol):
    """Sees a share of what endpoints are asked and answer, batch by batch; `share` is in hundredths of a per cent.

    Both methods are called in one thread of its own, some time after the answers were sent. It does not change the arrays. What
    it is too slow to see is missed, and counted. One that raises is told no more.
    """

    share: int

    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """`endpoint` is the id, `revision` the number; arrays are in the model's order, the first axis counts rows where it
        batches."""
        ...

    def close(self) -> None:
        """The worker ends, and waits a second at most."""
        ...


class Watcher:
    """One tap with its thread. `seen` and `missed` count batches; `failed` is 1 once it has."""

    def __init__(self, tap: Tap) -> None:
        self.name, self.share = type(tap).__name__, tap.share
        self.seen = self.missed = self.failed = 0
        self._told = 0, 0, 0
        self._tap = tap
        self._waiting: deque[Seen] = deque()
        self._bytes_given = self._bytes_taken = 0  # each written by one thread alone
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"tap {self.name}", daemon=True)
        self._thread.start()

    def offer(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """On the loop: a place in a queue, where there is one."""
        size = sum(array.nbytes for array in inputs) + sum(array.nbytes for array in outputs)
        full = len(self._waiting) >= MOST_BATCHES or self._bytes_given - self._bytes_taken + size > MOST_BYTES
        if full or self.failed:
            self.missed += 1
            return
        self._bytes_given += size
        self._waiting.append((endpoint, revision, inputs, outputs, size))

    def told(self) -> tuple[int, int, int]:
        """Batches seen and missed, and failures, since this was last asked."""
        now, before = (self.seen, self.missed, self.failed), self._told
        self._told = now
        return now[0] - before[0], now[1] - before[1], now[2] - before[2]

    def close(self) -> None:
        """What waits is seen as far as there is time for it."""
        self._ending.set()
        self._thread.join(_PARTS_WITHIN)

    def _work(self) -> None:
        try:
            self._watch()
            self._tap.close()
        except Exception:
            log.exception("the tap %s failed and is told no more", self.name)
            self.failed = 1
            self._waiting.clear()

    def _watch(self) -> None:
        owed = 0.0
        while self._waiting or not self._ending.is_set():
            if not self._waiting:
                self._ending.wait(_LOOKS)
                continue
            endpoint, revision, inputs, outputs, size = self._waiting.popleft()
            began = time.thread_time()
            self._tap.see(endpoint, revision, inputs, outputs)
            self.seen += 1
            self._bytes_taken += size
            owed += (time.thread_time() - began) * _RESTS
            if owed > _OWES:
                self._ending.wait(owed)
                owed = 0.0
