"""How many uploads may be under way at once: an upload holds a worker thread for as long as its client takes to send it."""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from falaj.base.errors import TooMany

RETRY_AFTER = 5.0


class UploadSlots:
    """Thread-safe. At most `total` uploads at once, and `each` of one caller; callers are told apart by their credentials."""

    def __init__(self, *, total: int = 24, each: int = 8) -> None:
        self.total = total
        self._each = each
        self._held: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, credentials: str | None) -> Iterator[None]:
        """A slot for the time of one upload; where none is free, `TooMany` at once rather than a wait."""
        caller = hashlib.sha256((credentials or "").encode()).digest()
        with self._lock:
            if self._held[caller] >= self._each:
                raise TooMany(f"This caller has {self._each} uploads under way; let one end first.", delay=RETRY_AFTER)
            if self._held.total() >= self.total:
                raise TooMany(f"{self.total} uploads are under way, which is all there is room for.", delay=RETRY_AFTER)
            self._held[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[caller] -= 1
                self._held += Counter()  # forgets callers that hold none
