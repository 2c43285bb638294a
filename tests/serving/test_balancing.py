"""Whoever asks several planes is answered by one that is well."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from falaj.base.errors import Forbidden, TooMany, Unavailable
from falaj.client.predictions import FORGIVEN_AFTER, Planes


class Plane(ThreadingHTTPServer):
    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.asked = status, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Plane

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        good = self.server.status == 200
        body = json.dumps({"predictions": [self.server.url]} if good else {"error": "no"}).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running(*statuses: int) -> Iterator[list[Plane]]:
    servers = [Plane(status) for status in statuses]
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield servers
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def test_calls_are_spread_over_planes_that_are_well():
    with running(200, 200) as (first, second):
        planes = Planes([first.url, second.url], "token")
        for _ in range(10):
            planes.predict("e", [{"x": 1}])
        assert (first.asked, second.asked) == (5, 5)


def test_a_plane_that_is_gone_or_not_able_costs_no_call_and_is_asked_last():
    with running(503, 200, 200) as (unable, first, second):
        with running(200) as (gone,):
            pass
        planes = Planes([unable.url, gone.url, first.url, second.url], "token")
        for _ in range(12):
            assert planes.predict("e", [{"x": 1}])["predictions"][0] in (first.url, second.url)
        assert unable.asked == 1
        assert first.asked + second.asked == 12
        assert abs(first.asked - second.asked) <= 2  # whose turn it was when the others fell out differs


def test_of_those_that_failed_the_one_longest_ago_comes_first():
    moments = count(0.0, 0.001)
    with running(503, 503, 503) as servers:
        urls = [server.url for server in servers]
        planes = Planes(urls, "token", now=lambda: next(moments))
        before = None
        for _ in range(3):
            with pytest.raises(Unavailable):
                planes.predict("e", [{"x": 1}])
            order = planes.order()
            assert before is None or order == before  # all failed in this order, so they are asked in it again
            before = order
        servers[2].status = 200
        assert planes.predict("e", [{"x": 1}])["predictions"] == [urls[2]]
        assert planes.order()[0] == urls[2]


def test_a_plane_that_came_back_is_asked_again_after_a_while():
    moment = [0.0]
    with running(503, 200) as (first, second):
        planes = Planes([first.url, second.url], "token", now=lambda: moment[0])
        for _ in range(4):
            planes.predict("e", [{"x": 1}])
        first.status, asked = 200, first.asked
        planes.predict("e", [{"x": 1}])
        assert first.asked == asked
        moment[0] = FORGIVEN_AFTER
        for _ in range(4):
            planes.predict("e", [{"x": 1}])
        assert first.asked == asked + 2


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (429, TooMany)])
def test_what_a_plane_refuses_is_not_asked_of_another(status, kind):
    with running(status, status) as servers:
        with pytest.raises(kind):
            Planes([server.url for server in servers], "token").predict("e", [[1.0]])
        assert sum(server.asked for server in servers) == 1


def test_without_any_plane_it_is_told_so():
    with pytest.raises(Unavailable):
        Planes([], "token")
