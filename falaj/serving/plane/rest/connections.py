"""One client's connection: requests are read off it and answered one after the other.

A request that arrives whole is read where it lies; a body that does not is received straight into the buffer its tensors will
be made of. What is ambiguous, too large or too slow ends the connection.
"""

import asyncio
import ssl
import time
from collections import deque
from typing import Final, Protocol, cast

from falaj.base.errors import FalajError, TooLarge, Unavailable
from falaj.serving.plane.addresses import source_of
from falaj.serving.plane.rest.answers import LINES, error_body, error_lines, status_of
from falaj.serving.plane.rest.chunks import Chunks
from falaj.serving.plane.rest.exchanges import CLOSE, Exchange, Shared
from falaj.serving.plane.rest.heads import CHUNKED, Head, HeadTooLarge, TooSlow
from falaj.serving.plane.shares import Share

_LARGE: Final = 32 * 1024  # from here on a body is received only from those who may ask
_AT_FIRST: Final = 1024 * 1024  # of a body gets its memory before it comes: what was only announced takes none
_GROWS: Final = 4
_TURN: Final = 16  # pipelined requests in one go, before others get theirs
_JOINED_MOST: Final = 64 * 1024
_PIECE: Final = 256 * 1024
_LINGER: Final = 2.0
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"


class Roll(Protocol):
    """Knows the connections there are. `add` says whether there is room for one more."""

    def add(self, connection: "Connection") -> bool: ...

    def remove(self, connection: "Connection") -> None: ...


class Connection(asyncio.BufferedProtocol):
    """Reads requests, has them answered, writes the answers. At any time it waits for a head, or for a body (`_head` is set),
    or for an answer (`exchange` is set), or for the client to take its leave (`_lingering`)."""

    __slots__ = (
        "_body",
        "_body_view",
        "_chunks",
        "_filled",
        "_first",
        "_head",
        "_held",
        "_keeps",
        "_lingering",
        "_looping",
        "_paused",
        "_roll",
        "_share",
        "_since",
        "_started",
        "_stuck",
        "_tls",
        "_transport",
        "_unread",
        "_unsent",
        "exchange",
        "parting",
        "shared",
    )

    def __init__(self, shared: Shared, roll: Roll) -> None:
        self.shared = shared
        self._roll = roll
        self.exchange: Exchange | None = None
        self.parting = False
        self._transport: asyncio.Transport | None = None
        self._held = b""  # bytes that came and are not dealt with
        self._head: Head | None = None
        self._body: bytearray | None = None
        self._body_view: memoryview | None = None
        self._filled = 0
        self._share: Share = shared.shares.of("")  # that the present body is of
        self._chunks: Chunks | None = None
        self._since = shared.now  # when the present state began, to the second
        self._started = 0.0  # when the first byte of the present request came
        self._first = True
        self._looping = False
        self._paused = False  # reading
        self._stuck = False  # writing
        self._unread = 0  # of an answer, when last looked at
        self._tls = False
        self._keeps = True  # the connection, after that answer
        self._unsent: deque[memoryview] = deque()  # of an answer, where it goes out piece by piece
        self._lingering = False

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self._tls = tls is not None
        if tls is not None and tls.selected_alpn_protocol() == "h2" and self.shared.h2 is not None:
            self._hand_over(b"")
            return
        if not self._roll.add(self):
            self._refuse_and_leave(Unavailable("the server has as many connections as it takes; try again", delay=1))
            self._transport.close()  # without lingering: others wait for the room

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._body_view is not None:
            if self._filled == len(self._body_view):
                self._grow()
            return self._body_view[self._filled :]
        return self.shared.view

    def buffer_updated(self, nbytes: int) -> None:
        shared = self.shared
        if self._body_view is not None:
            self._receive(nbytes)
        elif self._held or self._chunks is not None or self.exchange is not None or self._lingering:
            self._receive_apart(bytes(shared.view[:nbytes]))
        else:
            self._work(shared.scratch, shared.view, nbytes)

    def eof_received(self) -> bool:
        return False  # nobody sends an end and then waits for an answer, but clients that give up send one

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._roll.remove(self)
        if self.exchange is not None:
            self.exchange.gone = True
            self.exchange = None
        self._drop_body()
        self._unsent.clear()

    def pause_writing(self) -> None:
        self._stuck = True
        self._since = self.shared.now
        self._unread = 1 << 62

    def resume_writing(self) -> None:
        self._stuck, self._since = False, self.shared.now
        if self._unsent:
            self._send_on()
        else:
            self._go_on()

    # What the exchange and the edge call.

    @property
    def source(self) -> str:
        return source_of(self._transport.get_extra_info("peername")) if self._transport is not None else ""

    def finish(self, data: bytes, keep: bool) -> None:
        """The present request's whole answer."""
        transport = self._transport
        if transport is None:
            return
        if data:
            transport.write(data)
        self.exchange = None
        if not keep:
            self._lingering, self._since = True, self.shared.now
            transport.close()
        elif not self._looping:
            self._since = self.shared.now
            if self._held or self._paused:
                self._go_on()

    def finish_parts(self, parts: list[bytes | memoryview], keep: bool) -> None:
        """As `finish`. Large parts are handed over as they are, for joining would copy them. TLS takes whatever it is given and
        does not say how much of that is not read: it is given no more than it can pass on, and the connection is kept."""
        if sum(map(len, parts)) < _JOINED_MOST or self._transport is None:
            self.finish(b"".join(parts), keep)
        elif self._tls:
            self._unsent.extend(memoryview(part) for part in parts if len(part))
            self._keeps = keep
            self._send_on()
        else:
            self._transport.writelines(parts)
            self.finish(b"", keep)

    def _send_on(self) -> None:
        """As much as goes out now; the rest when the client has taken that. The answer ends the exchange."""
        while self._unsent and not self._stuck and self._transport is not None:
            part = self._unsent.popleft()
            if len(part) > _PIECE:
                self._unsent.appendleft(part[_PIECE:])
            self._transport.write(part[:_PIECE])
        if not self._unsent:
            self.finish(b"", self._keeps)

    def close_if_idle(self) -> None:
        if self._transport is not None and self.exchange is None and self._head is None and not self._held:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Whether the client has kept everybody waiting for too long."""
        limits, waited = self.shared.limits, now - self._since
        if self._lingering:
            if waited > _LINGER and self._transport is not None:
                self._check_leaving(now, self._transport)
        elif self._stuck:
            self._check_reader(now, waited)
        elif self.exchange is not None:
            self._since = now
        elif self._head is not None or self._held:
            allowed = limits.receive + (self._head.length / limits.slowest if self._head and self._body is not None else 0)
            if waited > allowed:
                self._refuse_and_leave(TooSlow(f"the request did not arrive within {allowed:.0f} seconds"))
        elif self._transport is not None and waited > (limits.receive if self._first else limits.idle):
            self._transport.close()

    # Receiving.

    def _work(self, data: bytes | bytearray, view: memoryview, end: int) -> None:
        """Deals with the requests in `data`, up to `end`, and keeps what is left of it."""
        at, turns, self._looping = 0, 0, True
        shared = self.shared
        while at < end and self.exchange is None and not self._stuck and not self._lingering and turns < _TURN:
            stop = data.find(_END_OF_HEAD, at, end) + 4
            if stop == 3 or self._first:
                if not self._is_head_possible(data, at, end):
                    self._looping = False
                    return
                if stop == 3:
                    break
            turns += 1
            try:
                head = shared.heads.read(bytes(view[at:stop]))
                length = head.length
                if head.refused is not None or length < 0 or stop + length > end:
                    at = self._begin_body(head, view, stop, end)
                    continue
            except FalajError as error:
                self._refuse_and_leave(error)
                break
            at = stop + length
            arrived, self._started = self._started or time.monotonic(), 0.0
            try:
                head.call(self, head, view[stop:at], arrived)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                self._refuse_exchange(error)
        self._looping = False
        self._keep(view, at, end, turns)

    def _keep(self, view: memoryview, at: int, end: int, turns: int) -> None:
        """After a turn: what is left waits for its rest, for the answer before it, or for its next turn."""
        if at >= end:
            self._held = b""
            if self._head is None:
                self._since = self.shared.now
        elif self._lingering or self._transport is None:
            self._held = b""
        else:
            self._held = bytes(view[at:end])
            if self.exchange is not None or self._stuck:
                self._pause()
            elif turns >= _TURN:
                self._pause()
                self.shared.loop.call_soon(self._go_on)
            else:
                self._start()

    def _start(self) -> None:
        """A request has begun to come and is not all here; its time runs from the first byte, not from the latest."""
        if not self._started:
            self._started, self._since = time.monotonic(), self.shared.now

    def _is_head_possible(self, data: bytes | bytearray, at: int, end: int) -> bool:
        """Before the first request, and where no head is complete: whether to read on here as before."""
        if self._first and at == 0:
            start = bytes(data[: min(end, len(_PREFACE))])
            if self.shared.h2 is not None and len(start) >= 4 and _PREFACE.startswith(start):
                self._hand_over(bytes(data[:end]))
                return False
            self._first = len(start) < 4
        if end - at > self.shared.limits.head:
            self._refuse_and_leave(HeadTooLarge(f"the head is larger than the {self.shared.limits.head} bytes that are taken"))
            return False
        return True

    def _begin_body(self, head: Head, view: memoryview, at: int, end: int) -> int:
        """A head whose body is not all here, or not wanted. Gives the place up to which the data was used."""
        length, project = head.length, ""
        if head.refused is None and head.vet is not None and (length > _LARGE or length == CHUNKED or head.expects):
            try:
                project = head.vet(head, self.source)
            except FalajError as error:
                self._refuse(head, error)
                return end
        if head.refused is not None:
            return self._skip(head, at, end)
        most = self.shared.limits.body if head.vet is not None else _LARGE  # what nobody is asked about has no use for more
        if length > most:
            self._refuse(head, TooLarge(f"the body has {length} bytes; at most {most} are taken here"))
            return end
        if head.expects and at == end and self._transport is not None:
            self._transport.write(_CONTINUE)
        self._start()
        self._head, self._share = head, self.shared.shares.of(project)
        if length == CHUNKED:
            self._chunks = Chunks(most)
            rest = bytes(view[at:end])
            used = self._receive_chunks(rest) if rest else -1
            return end if used < 0 else at + used
        self._filled = end - at
        self._body = bytearray(min(length, max(_AT_FIRST, self._filled)))
        self._body_view = memoryview(self._body)
        self._body_view[: self._filled] = view[at:end]
        self._count(self._filled)
        return end

    def _grow(self) -> None:
        head, body = self._head, self._body
        if head is not None and body is not None:
            larger = bytearray(min(head.length, _GROWS * len(body)))
            larger[: len(body)] = body
            self._body, self._body_view = larger, memoryview(larger)

    def _skip(self, head: Head, at: int, end: int) -> int:
        """Where a refused request's body is all here the connection can go on; else it is not worth receiving."""
        error = cast(Exception, head.refused)
        if head.length == CHUNKED or at + head.length > end:
            self._refuse(head, error)
            return end
        self._started = 0.0
        Exchange(self, head, 0.0).refuse(error)
        return at + head.length

    def _refuse(self, head: Head, error: Exception) -> None:
        self._refuse_and_leave(error, head.is_head)

    def _receive(self, count: int) -> None:
        body, head = self._body, self._head
        if body is None or head is None:
            return
        self._filled += count
        if not self._count(count):
            self._refuse_and_leave(Unavailable("too many large requests at once; try again", delay=1))
        elif self._filled == head.length:
            self._drop_body()
            self._complete(head, body)

    def _count(self, count: int) -> bool:
        fits = self._share.fits(count)
        self._share.hold(count)
        return fits

    def _drop_body(self) -> None:
        if self._body is not None:
            self._share.give(self._filled)
        if self._chunks is not None:
            self._share.give(len(self._chunks.body))
        self._body = self._body_view = self._chunks = self._head = None

    def _complete(self, head: Head, body: bytearray) -> None:
        arrived, self._started = self._started, 0.0
        self._since = self.shared.now
        looping, self._looping = self._looping, True
        try:
            head.call(self, head, body, arrived)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            self._refuse_exchange(error)
        self._looping = looping

    def _refuse_exchange(self, error: Exception) -> None:
        if self.exchange is not None:
            self.exchange.refuse(error)

    def _receive_apart(self, data: bytes) -> None:
        """Bytes that come while others are held, in chunks, or while an answer is awaited."""
        if self._lingering:
            return
        if self._chunks is not None:
            used = self._receive_chunks(data)
            data = data[used:] if used >= 0 else b""
        if self._held:
            data = self._held + data
        if data:
            self._deal(data)

    def _deal(self, data: bytes) -> None:
        if self.exchange is not None or self._stuck:
            self._held = data
            self._pause()
        elif self._chunks is None and self._body is None:
            self._work(data, memoryview(data), len(data))

    def _receive_chunks(self, data: bytes) -> int:
        chunks, head = self._chunks, self._head
        if chunks is None or head is None:
            return 0
        before = len(chunks.body)
        try:
            used = chunks.feed(data)
        except FalajError as error:
            self._share.hold(len(chunks.body) - before)
            self._refuse_and_leave(error)
            return len(data)
        if not self._count(len(chunks.body) - before):
            self._refuse_and_leave(Unavailable("too many large requests at once; try again", delay=1))
        elif used >= 0:
            self._drop_body()
            self._complete(head, chunks.body)
        return used

    # Going on, and leaving.

    def _go_on(self) -> None:
        """After an answer was given, or could be written, or others had their turn."""
        if self._transport is None or self.exchange is not None or self._stuck or self._lingering:
            return
        if self._held:
            data, self._held = self._held, b""
            self._work(data, memoryview(data), len(data))
        self._resume()

    def _resume(self) -> None:
        """Reads on, unless something whole that was read before still waits."""
        waits = self.exchange is not None or self._stuck or (self._held and not self._started)
        if self._paused and self._transport is not None and not waits:
            self._paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _refuse_and_leave(self, error: Exception, is_head: bool = False) -> None:
        """For what went wrong with the connection, or before an exchange began."""
        self._drop_body()
        if self._transport is None:
            return
        status = status_of(error)
        body = error_body(error)
        content = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        lines = (LINES[status], self.shared.date, content, error_lines(error), CLOSE, b"" if is_head else body)
        self._transport.write(b"".join(lines))
        self._leave()

    def _leave(self) -> None:
        """Closing while the client still sends would reset the connection, and the answer with it: what comes is thrown away
        for a moment, until the client closes."""
        transport = self._transport
        if transport is None or self._lingering:
            return
        self._lingering, self._held, self._since = True, b"", self.shared.now
        if self._paused:
            self._paused = False
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def _check_leaving(self, now: float, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            self._check_reader(now, now - self._since)
        else:
            transport.close()

    def _check_reader(self, now: float, waited: float) -> None:
        """A slow reader may take its time as long as it takes something."""
        if self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread:
            self._unread, self._since = unread, now
        elif waited > self.shared.limits.stalled:
            self.abort()

    def _hand_over(self, data: bytes) -> None:
        """The connection speaks HTTP/2: it is somebody else's from here on, with all that was read."""
        transport, make = self._transport, self.shared.h2
        if transport is None or make is None:
            return
        self._roll.remove(self)
        self._transport = None
        protocol = make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if data:
            protocol.data_received(data)
