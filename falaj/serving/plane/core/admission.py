"""Who is let in while others wait: bounds per endpoint, per caller and over all, so that nothing queues without end."""

from typing import Final

from falaj.base.errors import TooMany, Unavailable

DEFAULT_CONCURRENCY: Final = 2048
_MOST_CALLERS: Final = 10_000
_LEAST_DELAY: Final = 0.1
_BURST_SECONDS: Final = 1.0


class Waiting:
    """What all endpoints together keep in memory for requests that wait or run, in bytes."""

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self.most = most


class Gate:
    """One endpoint's. `open` counts the requests that were let in and not answered yet."""

    __slots__ = ("most", "open", "waiting")

    def __init__(self, waiting: Waiting) -> None:
        self.open = 0
        self.most = DEFAULT_CONCURRENCY
        self.waiting = waiting

    def enter(self, weight: int) -> None:
        waiting = self.waiting
        if self.open >= self.most:
            raise Unavailable(f"{self.open} predictions of this endpoint are under way, as many as may be.", delay=_LEAST_DELAY)
        if waiting.bytes + weight > waiting.most and waiting.bytes:
            raise Unavailable("The requests that wait take all the memory that there is for them.", delay=_LEAST_DELAY)
        self.open += 1
        waiting.bytes += weight

    def leave(self, count: int, weight: int) -> None:
        self.open -= count
        self.waiting.bytes -= weight


def too_late(wait: float, allowed: float) -> Unavailable:
    """The refusal of a request that would wait for longer than is of use."""
    return Unavailable(
        f"About {wait * 1000:.0f} ms of work wait; {max(allowed, 0.0) * 1000:.0f} ms would be in time.",
        delay=max(_LEAST_DELAY, wait - allowed),
    )


class Rates:
    """Calls per second of each caller, with a second's worth to spare. One that has its full share again may be forgotten."""

    __slots__ = ("_callers", "_per_second")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._callers: dict[str, float] = {}  # when each would have its full share again, in monotonic seconds

    def take(self, caller: str, now: float) -> None:
        each = 1.0 / self._per_second
        full = max(self._callers.get(caller, 0.0), now) + each
        over = full - now - max(_BURST_SECONDS, each)
        if over > 1e-9:
            raise TooMany(f"This endpoint takes {self._per_second} calls a second from one caller.", delay=over)
        if len(self._callers) >= _MOST_CALLERS and caller not in self._callers:
            self._callers = {name: at for name, at in self._callers.items() if at > now}
        self._callers[caller] = full
