"""The sending half of a connection: what the client lets us send, and when it is written.

What is to be sent in one turn of the loop is written at once. Small answers go out whole; what the client has no room for yet
waits with its stream, counted in the worker's `Held`.
"""

import asyncio
import struct
from collections import deque
from typing import Final

from falaj.serving.plane.addresses import source_of
from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.streams import Stream
from falaj.serving.plane.shares import Share, Shares

_ENOUGH: Final = 512 * 1024  # of frames in one write
_WORTH_A_FRAME: Final = 64 * 1024  # of a message that is not copied to be joined with its five bytes
_TABLE_OF_NO_SIZE: Final = b"\x20"
_RESETS_REMEMBERED: Final = 256
PATIENCE_WON: Final = 4  # by an answer; a diligent client sends two window updates for it

# A frame's head and the five bytes that a gRPC message begins with.
_MESSAGE_HEAD: Final = struct.Struct(">HBBBIBI")


class Template:
    """A header block that is always the same, with the head of its frame."""

    __slots__ = ("before", "block")

    def __init__(self, block: bytes, flags: int) -> None:
        self.block = block
        self.before = frames.head(len(block), frames.HEADERS, flags, 0)[:5]


class Sending(asyncio.Protocol):
    """`window` and `largest_frame` are the client's; `reset` are streams that we ended while the client may still send."""

    _transport: asyncio.Transport
    _paused = False
    _first_block = True
    _closed = False

    def __init__(self, loop: asyncio.AbstractEventLoop, held: Shares) -> None:
        self.held = held
        self.streams: dict[int, Stream] = {}
        self.abandoned = 0  # answers that are being worked on though nobody waits
        self.patience = 0
        self._loop = loop
        self._out: list[bytes] = []
        self._window = frames.DEFAULT_WINDOW
        self._initial_window = frames.DEFAULT_WINDOW
        self._largest_frame = frames.DEFAULT_FRAME
        self._blocked: dict[int, Stream] = {}
        self._reset: dict[int, None] = {}
        self._sent = 0  # bytes of content that had to wait

    def emit(self, part: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(part)

    def _flush(self) -> None:
        out = self._out
        if out:
            self._out = []
            if not self._closed:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def send_whole(self, stream: Stream, before: Template, message: bytes, after: Template) -> None:
        """A whole answer in one go: head, one message, trailers."""
        size = len(message) + 5
        if (
            size > stream.window
            or size > self._window
            or size > self._largest_frame
            or self._paused
            or self._first_block
            or not stream.ended
        ):
            self.start(stream, before.block)
            self.send(stream, message)
            self.finish(stream, after.block)
            return
        id = stream.id
        self._window -= size
        number = frames.pack_id(id)
        head = _MESSAGE_HEAD.pack(size >> 8, size & 0xFF, 0, 0, id, 0, size - 5)
        part = b"".join((before.before, number, before.block, head, message, after.before, number, after.block))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(part)
        self.patience += PATIENCE_WON
        del self.streams[id]
        if stream.held:
            self._release(stream)
        if not self.streams:
            self._rest_now()

    def start(self, stream: Stream, block: bytes) -> None:
        self._send_block(stream.id, frames.END_HEADERS, block)

    def send(self, stream: Stream, message: bytes) -> None:
        """One gRPC message, now or as soon as the client lets us."""
        pending = stream.pending
        if pending is None:
            pending = stream.pending = deque()
        head = b"\0" + frames.pack_id(len(message))
        if len(message) < _WORTH_A_FRAME:
            pending.append(memoryview(head + message))
        else:
            pending.append(memoryview(head))
            pending.append(memoryview(message))
        stream.unsent += len(message) + 5
        self.share_of(stream).hold(len(message) + 5)
        self._blocked[stream.id] = stream
        self.patience += PATIENCE_WON
        self._pump()

    @property
    def source(self) -> str:
        """The client's address."""
        return source_of(self._transport.get_extra_info("peername"))

    def work_ended(self) -> None:
        """Of somebody who did not know that nobody waits."""
        self.abandoned = max(0, self.abandoned - 1)

    def may_send(self, stream: Stream, size: int) -> bool:
        """Whether an answer can go out at once, or the worker has room for it until it can."""
        return self.share_of(stream).fits(size) or (size + 5 <= min(stream.window, self._window) and not self._paused)

    def share_of(self, stream: Stream) -> Share:
        """Of what the worker may hold, counted for the caller's project; for nobody's where that is not known yet."""
        share = stream.share
        if share is None:
            share = stream.share = self.held.of(stream.head.project)
        return share

    def finish(self, stream: Stream, block: bytes) -> None:
        """Ends the answer; `block` is trailers, or all there is of it."""
        if stream.pending:
            stream.closing = block
        else:
            self._end(stream, block)

    def _end(self, stream: Stream, block: bytes) -> None:
        self._send_block(stream.id, frames.END_HEADERS | frames.END_STREAM, block)
        self.patience += 1
        if not stream.ended:
            # All has been said; the client need not send the rest (RFC 9113, 8.1).
            self.emit(frames.rst_stream(stream.id, frames.NO_ERROR))
            self._remember_reset(stream.id)
        self._forget(stream)

    def _send_block(self, id: int, flags: int, block: bytes) -> None:
        if self._first_block:
            # Whatever table the client allows, ours is none: said once, it holds for whatever it allows later.
            self._first_block = False
            block = _TABLE_OF_NO_SIZE + block
        self.emit(frames.frame(frames.HEADERS, flags, id, block))

    def _forget(self, stream: Stream) -> None:
        if self.streams.pop(stream.id, None) is None:
            return
        self._blocked.pop(stream.id, None)
        stream.pending = None
        self._release(stream)
        if not self.streams:
            self._rest_now()

    def _rest_now(self) -> None:
        """There is no stream any more."""

    def _release(self, stream: Stream) -> None:
        if stream.share is not None:
            stream.share.give(stream.held + stream.unsent)
            stream.held = stream.unsent = 0

    def _remember_reset(self, id: int) -> None:
        self._reset[id] = None
        if len(self._reset) > _RESETS_REMEMBERED:
            del self._reset[next(iter(self._reset))]

    def _pump(self) -> None:
        """Sends what waits, as far as the client lets us: one frame of each stream in turn."""
        written = 0
        while self._blocked and self._window > 0 and not self._paused and not self._closed:
            progress = sum([self._send_frame(stream) for stream in list(self._blocked.values())])
            if not progress:
                return
            written += progress
            if written > _ENOUGH:
                self._flush()
                written = 0

    def _send_frame(self, stream: Stream) -> int:
        pending = stream.pending
        size = min(stream.window, self._window, self._largest_frame)
        if not pending or size <= 0:
            return 0
        part = pending[0]
        if len(part) > size:
            pending[0] = part[size:]
            part = part[:size]
        else:
            size = len(part)
            pending.popleft()
        stream.window -= size
        stream.unsent -= size
        self.share_of(stream).give(size)
        self._window -= size
        self._sent += size
        self.patience += size >> 10
        self.emit(frames.head(size, frames.DATA, 0, stream.id))
        self.emit(bytes(part))
        if not pending:
            del self._blocked[stream.id]
            if stream.closing is not None:
                self._end(stream, stream.closing)
            else:
                stream.sent_all()
        return size

    def pause_writing(self) -> None:
        """The client does not take what we send, so that we take nothing more from it either."""
        self._paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self._pump()
