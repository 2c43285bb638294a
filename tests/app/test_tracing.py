"""Spans leave for a collector, a real HTTP server here, and only where the settings name one."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest

from falaj.base.values import Nothing
from falaj.operations.operations import SHOW
from tests.app.running import RunningPlatform


@pytest.fixture
def collector() -> Iterator[tuple[str, "Queue[tuple[str, bytes]]"]]:
    received: Queue[tuple[str, bytes]] = Queue()

    class Collect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collect)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_calls_reach_the_collector_as_spans(tmp_path, collector) -> None:
    url, received = collector
    platform = RunningPlatform(tmp_path / "home", FALAJ_TRACES_ENDPOINT=url)
    try:
        platform.call(SHOW, Nothing())
    finally:
        platform.close()  # an orderly end sends what is still held back
    sent = [received.get(timeout=10)]
    while not received.empty():
        sent.append(received.get())
    assert {path for path, _ in sent} == {"/v1/traces"}
    assert any(b"platform.show" in body for _, body in sent)
    assert not any(b"falaj_" in body for _, body in sent), "a token left with a span"
