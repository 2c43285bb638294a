"""How much of everything a connection may take."""

from falaj.base.values import value


@value
class Limits:
    """Bytes and seconds. `receive` is for one request, from its first byte to its last; a body gets a second more for every
    `slowest` bytes. `stalled` is how long a client may leave an answer unread. `buffered` bounds what all unfinished bodies of
    a worker hold together. `json` bounds what is parsed at once, for everybody waits meanwhile. A compressed body may grow to
    `unfolded`, and beyond it to `times` its size: little must not become much work."""

    head: int = 64 * 1024
    body: int = 64 * 1024 * 1024
    json: int = 16 * 1024 * 1024
    buffered: int = 512 * 1024 * 1024
    connections: int = 4_096
    receive: float = 20.0
    slowest: int = 1024 * 1024
    idle: float = 75.0
    stalled: float = 30.0
    unfolded: int = 4 * 1024 * 1024
    times: int = 32

    def inflated(self, size: int) -> int:
        """What a compressed body of so many bytes may grow to."""
        return min(self.body, max(self.unfolded, size * self.times))
