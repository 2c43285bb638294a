"""A proxy between a client and the platform that writes down every request, with how it was answered."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and its answer; `code` is MLflow's error code, empty where all was well."""

    method: str
    path: str
    status: int
    code: str

    @property
    def is_unserved(self) -> bool:
        """Whether the platform has no answer to such a request, whatever it was about."""
        return self.code in ("ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED") or (self.status in (404, 405) and not self.code)


class Recorder:
    """`url` leads to the platform; what passes is in `exchanges`."""

    def __init__(self, platform: str) -> None:
        self.exchanges: list[Exchange] = []
        self._platform = urlsplit(platform)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def recording(self) -> Iterator["Recorder"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def unserved(self) -> list[Exchange]:
        return [exchange for exchange in self.exchanges if exchange.is_unserved]

    def _pass_on(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body_of(handler)
        connection = http.client.HTTPConnection(self._platform.hostname or "", self._platform.port, timeout=60)
        try:
            headers = {name: text for name, text in handler.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(handler.command, handler.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        path = handler.path.partition("?")[0]
        self.exchanges.append(Exchange(method=handler.command, path=path, status=answer.status, code=_code_in(answer, content)))
        handler.send_response_only(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                handler.send_header(name, text)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                recorder._pass_on(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        return Handler


def _body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """Files without a byte come in chunks, of which there are none."""
    if handler.headers.get("transfer-encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length", 0)))
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


def _code_in(answer: http.client.HTTPResponse, content: bytes) -> str:
    if answer.status < 400 or "json" not in answer.headers.get("content-type", ""):
        return ""
    return str(json.loads(content).get("error_code", ""))
