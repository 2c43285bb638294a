"""The edge of the socket: uvicorn's HTTP protocol with what it lacks: limits on heads, on dawdling, and on one address.

Bodies have their deadlines in `routes`, where it is known how large they may be.
"""

import asyncio
import fcntl
import sys
import termios
from collections import Counter
from contextlib import suppress

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 32 * 1024
HEAD_DEADLINE = 10.0
READ_DEADLINE = 30.0
LEAST_READ = 32 * 1024  # within that time, once a peer has fallen behind
MOST_PER_ADDRESS = 1500  # of the 2,000 in `app.server`: no one address can take them all


class GuardedProtocol(HttpToolsProtocol):
    """A connection that may not dawdle: a request's head must arrive whole, small and soon, and its answer must be read."""

    _head_bytes = 0  # what arrived while a head was expected
    _head_size = 0  # what the head is known to hold
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._addresses[self._address] += 1
        if self._addresses[self._address] > MOST_PER_ADDRESS:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._head_timer is None and not getattr(self.cycle, "more_body", False):
            self._await_head()
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > LARGEST_HEAD:
            self._refuse("431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():  # else it was refused already, with a better reason
            super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        # A whole URL could name another host than the Host header does, and what follows a `#` would vanish unseen.
        if not self.url.startswith(b"/") or b"#" in self.url or self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("not a request of ours")  # the parser stops here, and uvicorn answers 400 and closes
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_read_timer()
        self._addresses[self._address] -= 1
        if not self._addresses[self._address]:
            del self._addresses[self._address]
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not take what we send. It is given a while, or it could hold its answer for ever."""
        super().pause_writing()
        self._stop_read_timer()
        self._await_reading()

    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    @property
    def _addresses(self) -> Counter[str]:
        """How many connections each address has; kept with the server's own set of them."""
        counts: Counter[str] = self.server_state.__dict__.setdefault("addresses", Counter())
        return counts

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _count(self, size: int) -> None:
        """A head that arrives all at once is measured too."""
        self._head_size += size
        if self._head_size > LARGEST_HEAD:
            self._refuse("431 Request Header Fields Too Large")
            raise ValueError("the head is too large")

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_DEADLINE, self._refuse, "408 Request Timeout")

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _await_reading(self) -> None:
        self._read_timer = self.loop.call_later(READ_DEADLINE, self._check_reading, self._unread())

    def _check_reading(self, before: int) -> None:
        """Slow is not still: a peer that takes long to make room for more, yet reads, is given another while."""
        if before - self._unread() < LEAST_READ:
            self._stop_read_timer()
            self.transport.abort()
        else:
            self._await_reading()

    def _unread(self) -> int:
        """Bytes that wait here and in the kernel, whose buffers can be larger than what a slow peer reads in a while."""
        waiting = self.transport.get_write_buffer_size()
        with suppress(OSError):
            number = self.transport.get_extra_info("socket").fileno()
            waiting += int.from_bytes(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return waiting

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _refuse(self, status: str) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            self.transport.close()
