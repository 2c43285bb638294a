"""HTTP/2 (RFC 9113), the server's side: a connection's life from preface to parting, and the checks that nobody dawdles."""

import asyncio
from typing import Final, cast

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.controlling import PATIENCE
from falaj.serving.plane.grpc.heads import Heads
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.receiving import Receiving
from falaj.serving.plane.grpc.streams import Application, Head
from falaj.serving.plane.shares import Shares

_LINGER: Final = 1.0  # seconds in which a client may still read why it was closed
_DRAIN_PING: Final = b"draining"
_ALIVE_PING: Final = b"you here"
_CHECKS_PER_DEADLINE: Final = 4
_LEAST_READ: Final = 32 * 1024  # of what waits, within the time a client has for reading


class Shared:
    """What the connections of one worker have in common."""

    def __init__(self, application: Application, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self.application = application
        self.limits = limits
        self.loop = loop
        self.heads: Heads[Head] = Heads(limits.head)
        self.held = Shares(limits.held)
        self.connections: set[Http2] = set()
        self.draining = False
        self.greeting = frames.settings(
            {
                frames.HEADER_TABLE_SIZE: 0,
                frames.MAX_CONCURRENT_STREAMS: limits.streams,
                frames.INITIAL_WINDOW_SIZE: limits.stream_window,
                frames.MAX_FRAME_SIZE: limits.frame,
                frames.MAX_HEADER_LIST_SIZE: limits.head,
            }
        ) + frames.window_update(0, limits.window - frames.DEFAULT_WINDOW)


class Http2(Receiving):
    """A connection. Its first bytes are the client's preface."""

    _timer: asyncio.TimerHandle | None = None
    _parting = False
    # What the regular check compares with, in seconds.
    _quiet = 0.0
    _stuck = 0.0
    _unread = 0.0
    _sent_before = 0

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.loop, shared.application, shared.limits, shared.heads, shared.held)
        self._shared = shared

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._shared.connections.add(self)
        self.emit(self._shared.greeting)
        self._check_later()
        if len(self._shared.connections) > self._limits.connections:
            self._fail(frames.ENHANCE_YOUR_CALM, "the server has as many connections as it takes; try again")
        elif self._shared.draining:
            self.drain()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._shared.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._lose_streams()

    def eof_received(self) -> bool:
        return False  # a client that half closes waits for nothing: to end a request, HTTP/2 has END_STREAM

    def drain(self) -> None:
        """Takes no more requests, answers those that were sent, and closes. Safe to call twice."""
        if self._parting or self._closed:
            return
        self._parting = True
        # Requests may be on their way. The ping comes back behind them, and only then do we say which was the last.
        self.emit(frames.goaway(frames.LARGEST_ID, frames.NO_ERROR) + frames.frame(frames.PING, 0, 0, _DRAIN_PING))
        self._loop.call_later(_LINGER, self._name_the_last)

    def _on_pong(self, payload: bytes) -> None:
        if payload == _DRAIN_PING and self._parting:
            self._name_the_last()

    def _name_the_last(self) -> None:
        if self._last is None and not self._closed:
            self._last = self._highest
            self.emit(frames.goaway(self._highest, frames.NO_ERROR))
            if not self.streams:
                self._rest_now()

    def _on_parting(self) -> None:
        self._name_the_last()

    def _rest_now(self) -> None:
        if self._last is not None and not self._closed:
            self._close(self._limits.reading)

    def _fail(self, code: int, reason: str) -> None:
        if not self._closed:
            self.emit(frames.goaway(self._highest, code, reason))
            self._close(_LINGER)
            self._lose_streams()

    def _close(self, patience: float) -> None:
        """What the client still sends is dropped by us, for the kernel would drop our last words with it. `patience` is how
        long the client has for reading those."""
        self._flush()
        self._closed = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._hang_up_later(patience)

    def _hang_up_later(self, patience: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(_LINGER, self._hang_up, patience - _LINGER)

    def _hang_up(self, patience: float) -> None:
        if patience > 0 and self._transport.get_write_buffer_size():
            self._hang_up_later(patience)  # it still reads
        else:
            self._transport.abort()

    def _lose_streams(self) -> None:
        for stream in list(self.streams.values()):
            self._lose(stream)

    def _abort(self) -> None:
        self._closed = True
        self._lose_streams()
        self._transport.abort()

    def _check_later(self) -> None:
        limits = self._limits
        pause = min(limits.receiving, limits.reading, limits.idle) / _CHECKS_PER_DEADLINE
        self._timer = self._loop.call_later(pause, self._check, pause)

    def _check(self, since: float) -> None:
        now = self._loop.time()
        self.abandoned = 0
        self.patience = min(self.patience, PATIENCE)
        for stream in list(self.streams.values()):
            if stream.is_late(now, self._limits.receiving):
                stream.expire()
        self._check_receiving(since)
        self._check_reading(since)
        self._check_idle(since)
        if not self._closed:
            self._check_later()

    def _check_receiving(self, since: float) -> None:
        """A frame, a head or a greeting that began must end in time."""
        self._stuck = self._stuck + since if self._rest or self._only >= 0 else 0.0
        if self._stuck > self._limits.receiving and not self._closed:
            self._fail(frames.PROTOCOL_ERROR, "a frame began and did not end")

    def _check_reading(self, since: float) -> None:
        """What we have to say must be read in time; who does not read cannot be told so."""
        waits = self._paused or self._blocked
        if not waits or self._sent - self._sent_before >= _LEAST_READ:
            self._unread, self._sent_before = 0.0, self._sent
            return
        self._unread += since
        if self._unread > self._limits.reading and not self._closed:
            self._abort()

    def _check_idle(self, since: float) -> None:
        """A stream may be silent for long. A peer that lives answers a ping all the same."""
        limits = self._limits
        self._quiet = 0.0 if self._heard else self._quiet + since
        self._heard = False
        if self._quiet <= limits.idle or self._closed:
            return
        if not self.streams:
            self._name_the_last()
        elif self._quiet > limits.idle + limits.receiving:
            self._abort()
        else:
            self.emit(frames.frame(frames.PING, 0, 0, _ALIVE_PING))
