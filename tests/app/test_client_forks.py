"""A client in a fork, as loaders of data make them: both go on, each over connections of its own."""

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from falaj.client.http import Client
from falaj.datasets.operations.reading import READ_PART, ReadPart

ID = "0" * 32


class Answering(BaseHTTPRequestHandler):
    """Says which connection it was asked over."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer()

    def _answer(self) -> None:
        told = str(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def connection(client: Client) -> bytes:
    asked = ReadPart(project="default", dataset="flights", part=ID, offset=0, length=8)
    return b"".join(client.call(READ_PART, asked).chunks)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_connections_of_its_own(url: str) -> None:
    with Client(url, "token") as client:
        own = connection(client)
        assert connection(client) == own
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writing, connection(client))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) not in (b"", own)
        os.close(reading), os.close(writing)
        assert connection(client) == own
