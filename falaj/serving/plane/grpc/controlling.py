"""The frames that carry no request: settings, windows, pings, resets, partings (RFC 9113, section 6).

Whatever costs us more than it costs the client is counted (`_bother`). Good requests win patience back, and so does time; a
client that uses it up is told to calm down and is closed.
"""

import asyncio
from typing import Final

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.frames import ConnectionFailed, StreamFailed
from falaj.serving.plane.grpc.heads import StatefulFields
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.sending import Sending
from falaj.serving.plane.grpc.streams import Stream
from falaj.serving.plane.shares import Shares

PATIENCE: Final = 1000
_PATIENCE_PER_SECOND: Final = 200
_MOST_SETTINGS: Final = 64  # in one frame


class Controlling(Sending):
    """Every method that reads a frame raises `ConnectionFailed` or `StreamFailed`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, held: Shares) -> None:
        super().__init__(loop, held)
        self.patience = PATIENCE
        self._patience_at = loop.time()
        self._limits = limits
        self._only = frames.SETTINGS  # the one kind of frame that may come next; -1 for any
        self._highest = 0  # of the client's streams
        self._stateful: StatefulFields | None = StatefulFields(limits.head)  # until the client keeps no table

    def _bother(self, cost: int = 1) -> None:
        self.patience -= cost
        if self.patience < 0:
            now = self._loop.time()
            won = int((now - self._patience_at) * _PATIENCE_PER_SECOND)
            if won:
                self._patience_at = now
                self.patience = min(self.patience + won, PATIENCE)
            if self.patience < 0:
                raise ConnectionFailed(frames.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def _on_window_update(self, id: int, payload: bytes) -> None:
        self._bother()
        if len(payload) != 4:
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "a window update has four bytes")
        increment = frames.read_number(payload)[0] & 0x7FFFFFFF
        if not id:
            if not increment or self._window + increment > frames.LARGEST_WINDOW:
                code = frames.FLOW_CONTROL_ERROR if increment else frames.PROTOCOL_ERROR
                raise ConnectionFailed(code, "a window cannot grow by that")
            self._window += increment
        else:
            if id > self._highest:
                raise ConnectionFailed(frames.PROTOCOL_ERROR, "a window of a stream that was never opened")
            stream = self.streams.get(id)
            if stream is None:
                return  # it was closed while this was on its way
            if not increment or stream.window + increment > frames.LARGEST_WINDOW:
                raise StreamFailed(frames.FLOW_CONTROL_ERROR if increment else frames.PROTOCOL_ERROR)
            stream.window += increment
        if self._blocked:
            self._pump()

    def _on_settings(self, flags: int, id: int, payload: bytes) -> None:
        if id:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "settings are of the connection")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "settings have six bytes each")
        if flags & frames.ACK:
            if self._only == frames.SETTINGS:
                raise ConnectionFailed(frames.PROTOCOL_ERROR, "settings must come first")
            self._bother()
            if self._stateful is not None:
                self._stateful.bound = True
            return
        if len(payload) > 6 * _MOST_SETTINGS:
            raise ConnectionFailed(frames.ENHANCE_YOUR_CALM, "more settings than there are")
        if self._only == frames.SETTINGS:
            self._only = -1
        self._bother()
        for name, setting in frames.read_settings(payload):
            self._set(name, setting)
        self.emit(frames.SETTINGS_ACK)
        if self._blocked:
            self._pump()

    def _set(self, name: int, setting: int) -> None:
        if name == frames.INITIAL_WINDOW_SIZE:
            if setting > frames.LARGEST_WINDOW:
                raise ConnectionFailed(frames.FLOW_CONTROL_ERROR, "a window larger than any")
            change = setting - self._initial_window
            self._initial_window = setting
            for stream in self.streams.values():
                stream.window += change
                if stream.window > frames.LARGEST_WINDOW:
                    raise ConnectionFailed(frames.FLOW_CONTROL_ERROR, "a window larger than any")
        elif name == frames.MAX_FRAME_SIZE:
            if not frames.DEFAULT_FRAME <= setting <= frames.LARGEST_FRAME:
                raise ConnectionFailed(frames.PROTOCOL_ERROR, "no frame may be of that size")
            self._largest_frame = min(setting, frames.WORTHWHILE_FRAME)
        elif name == frames.ENABLE_PUSH and setting > 1:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "push is on or off")

    def _on_ping(self, flags: int, id: int, payload: bytes) -> None:
        if id:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "pings are of the connection")
        if len(payload) != 8:
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "a ping has eight bytes")
        self._bother()
        if flags & frames.ACK:
            self._on_pong(payload)
        else:
            self.emit(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_pong(self, payload: bytes) -> None:
        """A ping of ours came back."""

    def _on_rst_stream(self, id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "a reset has four bytes")
        if id > self._highest or not id & 1:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "a reset of a stream that was never opened")
        self._bother()
        stream = self.streams.get(id)
        if stream is not None:
            self._lose(stream)

    def _fail(self, code: int, reason: str) -> None:
        """Ends the connection, and says why."""
        raise NotImplementedError

    def _lose(self, stream: Stream) -> None:
        """The client will not read the answer."""
        if stream.is_working():
            self.abandoned += 1
        self._forget(stream)
        stream.lose()

    def _on_priority(self, id: int, payload: bytes) -> None:
        """Priorities as of RFC 7540 are no more; all that is left of them is their form."""
        self._bother()
        if not id:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "priorities are of streams")
        code = frames.NO_ERROR
        if len(payload) != 5:
            code = frames.FRAME_SIZE_ERROR
        elif frames.read_number(payload)[0] & 0x7FFFFFFF == id:
            code = frames.PROTOCOL_ERROR
        if code and id not in self.streams:
            raise ConnectionFailed(code, "not a priority")  # a stream that is not open cannot be reset
        if code:
            raise StreamFailed(code)

    def _on_goaway(self, id: int, payload: bytes) -> None:
        if id:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "a parting is of the connection")
        if len(payload) < 8:
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "a parting has eight bytes and more")
        self._bother()
        self._on_parting()

    def _on_parting(self) -> None:
        """The client will open no more streams."""
