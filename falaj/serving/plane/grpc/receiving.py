"""The receiving half of a connection: requests as they come in, by the rules of RFC 9113."""

import asyncio
import logging
import time
from collections import deque
from typing import Final

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.controlling import Controlling
from falaj.serving.plane.grpc.fields import Field, Malformed, check_trailers, read_request
from falaj.serving.plane.grpc.frames import ConnectionFailed, StreamFailed
from falaj.serving.plane.grpc.heads import Heads
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.streams import Application, Head, Stream
from falaj.serving.plane.shares import Shares

logger = logging.getLogger(__name__)

_MOST_CONTINUATIONS: Final = 16
_GAPS_REMEMBERED: Final = 16
_SMALL_CONTENT: Final = 64  # bytes; a frame with fewer, and more to come, costs more than it brings


class Receiving(Controlling):
    """Every method that reads a frame raises `ConnectionFailed` or `StreamFailed`."""

    _last: int | None = None  # streams above it are none of ours: we are parting

    def __init__(
        self, loop: asyncio.AbstractEventLoop, application: Application, limits: Limits, heads: Heads[Head], held: Shares
    ) -> None:
        super().__init__(loop, limits, held)
        self._application = application
        self._heads = heads
        self._known = heads.known
        self.now = time.monotonic  # which the loop's time is too, but only to the millisecond
        self.at_once = limits.at_once
        self._rest = bytearray()  # the beginning of a frame
        self._need = 0  # bytes that it has when it is whole
        self._begun = False
        self._heard = True
        self._room = limits.window
        self._low = limits.window // 2
        self._high_limit = limits.frame >> 8
        self._gaps: deque[tuple[int, int]] = deque(maxlen=_GAPS_REMEMBERED)  # numbers that it skipped
        self._block = bytearray()  # a header block that is not whole
        self._block_of = (0, False)
        self._continuations = 0

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self._heard = True
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._need:
                return
            data = bytes(rest)
            rest.clear()
        try:
            done = self._read_frames(data)
        except ConnectionFailed as failure:
            self._fail(failure.code, failure.reason)
            return
        except Exception:
            logger.exception("a connection failed")
            self._fail(frames.INTERNAL_ERROR, "the server failed on this connection")
            return
        if done < len(data) and not self._closed:
            rest += memoryview(data)[done:]

    def _read_frames(self, data: bytes) -> int:
        """Gives how many bytes were read; what is left is the beginning of a frame, of which `_need` bytes are needed."""
        position, end = 0, len(data)
        if not self._begun:
            position = self._read_preface(data)
            if not position:
                return 0
        while end - position >= 9:
            high, low, kind, flags, id = frames.read_head(data, position)
            start = position + 9
            after = start + (high << 8 | low)
            if after > end or self._only >= 0 or high >= self._high_limit:
                self._check_frame(after - start, kind)
                if after > end:
                    self._need = after - position
                    return position
            id &= 0x7FFFFFFF  # the highest bit means nothing
            try:
                if kind == 0:
                    self._on_data(data, start, after, flags, id)
                elif kind == 1:
                    self._on_headers(data, start, after, flags, id)
                else:
                    self._on_other(kind, flags, id, data[start:after])
            except StreamFailed as failure:
                self._reset_stream(id, failure.code)
            if self._closed:
                return end
            position = after
        self._need = 9
        return position

    def _check_frame(self, size: int, kind: int) -> None:
        if size > self._limits.frame:
            raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "a frame larger than announced")
        if self._only >= 0 and kind != self._only:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "another kind of frame must come here")

    def _read_preface(self, data: bytes) -> int:
        size = len(frames.PREFACE)
        if data[:size] != frames.PREFACE[: len(data)]:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "no HTTP/2 preface")
        if len(data) < size:
            return 0
        self._begun = True
        return size

    def _reset_stream(self, id: int, code: int) -> None:
        self.emit(frames.rst_stream(id, code))
        self._remember_reset(id)
        stream = self.streams.get(id)
        if stream is not None:
            self._lose(stream)
        self._bother()

    def _on_data(self, data: bytes, start: int, after: int, flags: int, id: int) -> None:
        size = after - start
        self._room -= size
        if self._room < self._low:
            self._open_window()
        stream = self.streams.get(id)
        if stream is None or stream.ended:
            self._on_stray_data(stream, id)
            return
        if flags & 8:
            start, after = _without_padding(data, start, after)
        ended = bool(flags & 1)
        content = after - start
        if not ended or stream.received:  # else it is one frame, and no frame is larger than the window
            self._count_window(stream, size)
            if content < _SMALL_CONTENT and not ended:
                self._bother()
        stream.received += content
        length = stream.head.length
        if length >= 0 and (stream.received > length or (ended and stream.received != length)):
            raise StreamFailed(frames.PROTOCOL_ERROR)
        stream.ended = ended
        stream.receive(data, start, after, ended)
        if not ended:
            self.replenish(stream)

    def _open_window(self) -> None:
        if self._room < 0:
            raise ConnectionFailed(frames.FLOW_CONTROL_ERROR, "more content than the connection's window")
        whole = self._limits.window
        self.emit(frames.window_update(0, whole - self._room))
        self._room = whole

    def _count_window(self, stream: Stream, size: int) -> None:
        stream.used += size
        if stream.used > self._limits.stream_window:
            raise StreamFailed(frames.FLOW_CONTROL_ERROR)

    def replenish(self, stream: Stream) -> None:
        """Lets the client send on, where it used half of what it may send and more is wanted."""
        used = stream.used
        if used * 2 >= self._limits.stream_window and not stream.ended and not stream.gone and stream.wants_more():
            self.emit(frames.window_update(stream.id, used))
            stream.used = 0

    def _on_stray_data(self, stream: Stream | None, id: int) -> None:
        if stream is not None:
            raise StreamFailed(frames.STREAM_CLOSED)
        if id > self._highest or not id & 1:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "content on a stream that was never opened")
        self._bother()
        if id not in self._reset and (self._last is None or id <= self._last):
            raise StreamFailed(frames.STREAM_CLOSED)

    def _on_headers(self, data: bytes, start: int, after: int, flags: int, id: int) -> None:
        if not id & 1:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "clients open streams of odd numbers")
        depends_on = -1
        if flags & 0x28:
            if flags & frames.PADDED:
                start, after = _without_padding(data, start, after)
            if flags & frames.PRIORITISED:
                if after - start < 5:
                    raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "no room for the priority")
                depends_on = frames.read_number(data, start)[0] & 0x7FFFFFFF
                start += 5
        block = data[start:after]
        if flags & 4:
            self._on_block(id, bool(flags & 1), block, depends_on == id)
        else:
            self._only = frames.CONTINUATION
            self._block_of = (id, bool(flags & 1))
            self._block += block
            self._continuations = 0
            if depends_on == id:
                raise ConnectionFailed(frames.PROTOCOL_ERROR, "a stream depends on itself")

    def _on_continuation(self, flags: int, id: int, part: bytes) -> None:
        if self._only != frames.CONTINUATION or id != self._block_of[0]:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "a continuation of nothing")
        self._block += part
        self._continuations += 1
        if self._continuations > _MOST_CONTINUATIONS or len(self._block) > 2 * self._limits.head:
            raise ConnectionFailed(frames.ENHANCE_YOUR_CALM, "a header block without end")
        if flags & frames.END_HEADERS:
            self._only = -1
            block = bytes(self._block)
            self._block.clear()
            self._on_block(*self._block_of, block, False)

    def _on_block(self, id: int, ended: bool, block: bytes, depends_on_itself: bool) -> None:
        if id <= self._highest:
            self._on_late_block(id, ended, block)
            return
        if id - self._highest > 2:
            self._gaps.append((self._highest, id))
        self._highest = id
        head = self._known.get(block) if self._stateful is None else None
        if self._last is not None and id > self._last:
            self._decode(block)
            return
        if len(self.streams) + self.abandoned >= self._limits.streams:
            if self._stateful is not None:
                self._decode(block)
            raise StreamFailed(frames.REFUSED_STREAM)
        if head is None:
            head = self._read_request(block)
        if depends_on_itself or (ended and head.length > 0):
            raise StreamFailed(frames.PROTOCOL_ERROR)
        stream = head.open(self, id, self._initial_window, time.monotonic())
        self.streams[id] = stream
        stream.ended = ended
        if head.eager:
            stream.begin()
        if ended and not stream.over:
            stream.receive(b"", 0, 0, True)

    def _on_late_block(self, id: int, ended: bool, block: bytes) -> None:
        """A block on a stream that was opened before: trailers, or a mistake."""
        stream = self.streams.get(id)
        fields = self._decode(block)
        if stream is None:
            if id in self._reset or (self._last is not None and id > self._last):
                self._bother()
                return
            if any(before < id < behind for before, behind in self._gaps):
                raise ConnectionFailed(frames.PROTOCOL_ERROR, "a stream's number is lower than one before it")
            raise ConnectionFailed(frames.STREAM_CLOSED, "a head on a stream that is closed")
        if stream.ended:
            raise StreamFailed(frames.STREAM_CLOSED)
        try:
            check_trailers(fields)
        except Malformed:
            raise StreamFailed(frames.PROTOCOL_ERROR) from None
        if not ended or (stream.head.length >= 0 and stream.received != stream.head.length):
            raise StreamFailed(frames.PROTOCOL_ERROR)
        stream.ended = True
        stream.receive(b"", 0, 0, True)

    def _read_request(self, block: bytes) -> Head:
        fields = self._decode(block)
        try:
            head = self._application.accept(read_request(fields))
        except Malformed:
            raise StreamFailed(frames.PROTOCOL_ERROR) from None
        if self._stateful is None:
            self._known.keep(block, head)
        return head

    def _decode(self, block: bytes) -> list[Field]:
        stateful = self._stateful
        if len(block) > 2 * self._limits.head:
            raise ConnectionFailed(frames.ENHANCE_YOUR_CALM, "a header block without end")
        if stateful is None:
            known = self._heads.fields
            before = known.decoded
            fields = known.decode(block)
            fresh = known.decoded - before
        else:
            fields = stateful.decode(block)
            fresh = len(block)
            if stateful.stateless:
                self._stateful = None
        if fresh >= 512:  # slow to decode where it is Huffman's code
            self._bother(fresh >> 9)
        return fields

    def _on_other(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._on_window_update(id, payload)
        elif kind == frames.SETTINGS:
            self._on_settings(flags, id, payload)
        elif kind == frames.PING:
            self._on_ping(flags, id, payload)
        elif kind == frames.RST_STREAM:
            self._on_rst_stream(id, payload)
        elif kind == frames.CONTINUATION:
            self._on_continuation(flags, id, payload)
        elif kind == frames.PRIORITY:
            self._on_priority(id, payload)
        elif kind == frames.GOAWAY:
            self._on_goaway(id, payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFailed(frames.PROTOCOL_ERROR, "clients promise nothing")
        else:
            self._bother()


def _without_padding(data: bytes, start: int, after: int) -> tuple[int, int]:
    if after == start:
        raise ConnectionFailed(frames.FRAME_SIZE_ERROR, "no room for the padding's length")
    padding = data[start]
    if padding >= after - start:
        raise ConnectionFailed(frames.PROTOCOL_ERROR, "more padding than there is room")
    return start + 1, after - padding
