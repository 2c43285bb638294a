"""Who is let in while others wait: bounds per endpoint, per caller, per project and over all, so that nothing queues without
end and nobody takes all the room there is."""

from typing import Final

from falaj.base.errors import TooMany, Unavailable
from falaj.serving.plane.shares import Share

DEFAULT_CONCURRENCY: Final = 2048
_MOST_CALLERS: Final = 10_000
_LEAST_DELAY: Final = 0.1
_EACH_WEIGHS: Final = 512  # bytes, beside its data: a project may have any number of endpoints
_BURST_SECONDS: Final = 1.0


class Gate:
    """One endpoint's. `open` counts the requests that were let in and not answered yet; `share` is what its project has of the
    memory for requests that wait or run."""

    __slots__ = ("most", "open", "share")

    def __init__(self, share: Share) -> None:
        self.open = 0
        self.most = DEFAULT_CONCURRENCY
        self.share = share

    def enter(self, weight: int) -> None:
        if self.open >= self.most:
            raise Unavailable(f"{self.open} predictions of this endpoint are under way, as many as may be.", delay=_LEAST_DELAY)
        if not self.share.take(weight + _EACH_WEIGHS):
            raise Unavailable("The requests that wait take all the memory that this project may have.", delay=_LEAST_DELAY)
        self.open += 1

    def leave(self, count: int, weight: int) -> None:
        self.open -= count
        self.share.give(weight + count * _EACH_WEIGHS)


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
