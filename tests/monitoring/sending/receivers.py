"""Receivers of alerts on this machine, good and bad ones: web servers that say what they are told to, and a mail server."""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Answer = Callable[[Any, threading.Event], None]  # writes to the connection, until the event at the latest


def says(status: int, *headers: str) -> Answer:
    lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Said", "content-length: 0", *headers))
    return lambda connection, _: connection.sendall(f"{lines}\r\n".encode())


def hangs(_: Any, over: threading.Event) -> None:
    over.wait()


def drips(connection: Any, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not over.wait(0.05):
        connection.sendall(b"a")


def never_ends(connection: Any, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"a" * (1 << 20))


def has_endless_headers(connection: Any, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.is_set():
        connection.sendall(b"x-more: " + b"a" * 60_000 + b"\r\n")


class Server(socketserver.ThreadingTCPServer):
    """`connections` counts those that were opened, whatever came of them."""

    allow_reuse_address = True

    def __init__(self, handler: type[socketserver.StreamRequestHandler], trust: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.trust, self.over, self.connections = trust, threading.Event(), 0
        self.answer: Answer = says(200)
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, *_: Any) -> None:
        """Whoever sends goes away in the middle of things."""


class Web(socketserver.StreamRequestHandler):
    server: Server

    def setup(self) -> None:
        if self.server.trust is not None:
            self.request = self.server.trust.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        path = self.rfile.readline().decode().split(" ")[1]
        headers = {}
        while (line := self.rfile.readline().decode().strip()) != "":
            name, _, said = line.partition(": ")
            headers[name.lower()] = said
        self.server.got.append((path, headers, self.rfile.read(int(headers["content-length"]))))
        self.server.answer(self.request, self.server.over)

    def finish(self) -> None:
        super().finish()
        self.request.close()


class Mail(socketserver.StreamRequestHandler):
    """Takes every mail; `got` has its sender and receivers, and what was in it."""

    server: Server

    def handle(self) -> None:
        envelope: list[str] = []
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            word = line.partition(" ")[0].upper()
            if word == "DATA":
                self._say("354 go on")
                mail = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    mail += part
                self.server.got.append((" ".join(envelope), {}, mail))
            elif word in ("MAIL", "RCPT"):
                envelope.append(line)
            self._say("221 bye" if word == "QUIT" else "250 good")
            if word == "QUIT":
                return

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(handler: type[socketserver.StreamRequestHandler], pair: tuple[Path, Path] | None = None) -> Iterator[Server]:
    trust = None
    if pair is not None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(*pair)
    with Server(handler, trust) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
