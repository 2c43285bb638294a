"""A platform that takes the files which jobs keep with their runs, and is away for a while if it is told to be."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

RUN = {"FALAJ_PROJECT": "fraud", "FALAJ_RUN": "f" * 32, "FALAJ_TOKEN": "falaj_word"}


class Receiving:
    """`files` is what came, by name; `statuses` are answered first, one for each that comes, 0 for none at all."""

    def __init__(self, *statuses: int) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.statuses = list(statuses)
        self.url = ""

    def answer(self, asked: http.server.BaseHTTPRequestHandler) -> int:
        way, query = urlsplit(asked.path), parse_qs(urlsplit(asked.path).query, keep_blank_values=True)
        self.asked.append(f"{asked.command} {way.path} {query['zone'][0]} {asked.headers['Authorization']}")
        content = asked.rfile.read(int(asked.headers["Content-Length"]))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.files[query["name"][0]] = content
        return status


@contextlib.contextmanager
def receiving(*statuses: int) -> Iterator[Receiving]:
    made = Receiving(*statuses)

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            status = made.answer(self)
            self.close_connection = True
            if status:
                words = b'{"detail": "so it is"}'
                self.send_response(status)
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
