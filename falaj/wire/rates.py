"""Rate limits: a bucket per caller, refilled steadily. Bounded memory; the least recently seen caller is forgotten."""

import hashlib
import threading
from collections import OrderedDict

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import TooMany
from falaj.base.values import value

MOST_CALLERS = 10_000


@value
class Rate:
    per_second: float
    burst: float


class RateLimits:
    """Thread-safe. Callers with credentials are told apart by them, strangers by their address."""

    def __init__(self, *, callers: Rate, strangers: Rate, clock: Clock) -> None:
        self._callers = callers
        self._strangers = strangers
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, credentials: str | None, address: str) -> None:
        if credentials is None:
            self._take(b"address " + address.encode(), self._strangers)
        else:
            self._take(hashlib.sha256(credentials.encode()).digest(), self._callers)

    def failed(self, address: str) -> None:
        """Wrong credentials count against the address, or guessing would only need a new guess each time."""
        self._take(b"address " + address.encode(), self._strangers)

    def _take(self, caller: bytes, rate: Rate) -> None:
        now = self._clock.now()
        with self._lock:
            left, seen = self._buckets.pop(caller, (rate.burst, now))
            left = min(rate.burst, left + (now - seen) / SECOND * rate.per_second)
            self._buckets[caller] = (max(0.0, left - 1), now)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        if left < 1:
            raise TooMany("Too many requests for this caller; slow down.", delay=max(1.0, (1 - left) / rate.per_second))
