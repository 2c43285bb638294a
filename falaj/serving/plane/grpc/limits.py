"""How much of this worker one client, and all of them together, may take."""

from falaj.base.values import value

MIB = 1024 * 1024


@value
class Limits:
    """Sizes in bytes, times in seconds.

    - `message`: the largest request; `described`: as much of it as may be anything but raw tensors, for that part grows
      several times over when it is read, and everybody waits meanwhile.
    - `head`: the fields of a request, counted as HTTP/2 does; a token of 8,000 characters fits.
    - `frame`, `stream_window`, `window`: what a client may send at once, on one stream, on the connection.
    - `held`: requests that are not answered yet and answers not yet taken, over all connections; small ones do not count.
    - `receiving`: how long one request may take to arrive; `reading`: how long a client may leave its answers lying.
    - `at_once`: of a stream of requests (`ModelStreamInfer`), how many are worked on at a time.
    """

    message: int = 64 * MIB
    described: int = MIB
    head: int = 16 * 1024
    streams: int = 100
    frame: int = 64 * 1024
    stream_window: int = MIB
    window: int = 8 * MIB
    held: int = 512 * MIB
    receiving: float = 20.0
    reading: float = 30.0
    idle: float = 75.0
    at_once: int = 32
    connections: int = 4_096
