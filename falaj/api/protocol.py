"""The edge of the socket: uvicorn's HTTP protocol with what it lacks, a limit on headers and a deadline for receiving them.

Bodies have their deadlines in `routes`, where it is known how large they may be.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 32 * 1024
HEAD_DEADLINE = 10.0


class GuardedProtocol(HttpToolsProtocol):
    """A connection that may not dawdle: each request's head must arrive whole, small and soon."""

    _head_bytes = 0  # what arrived while a head was expected
    _head_size = 0  # what the head is known to hold
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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
        super().connection_lost(exc)

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

    def _refuse(self, status: str) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            self.transport.close()
