"""The relay as its callers see it, without walls around them."""

import contextlib
import http.client
import http.server
import os
import socket
import ssl
import threading

import psutil
import pytest

from falaj.app.certificates import self_signed
from falaj.jobs.running.relay import Relay, Url, may_be_reached


class Answer(http.server.BaseHTTPRequestHandler):
    """Says how large what it was sent is, and for whom it was."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        if self.headers["Transfer-Encoding"]:
            size = 0
            while length := int(self.rfile.readline(), 16):
                size += len(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
        else:
            size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(f"{self.headers['Host']} {size}".encode())

    def do_GET(self):
        self.answer(os.urandom(int(self.path[1:])))

    def answer(self, words):
        self.send_response(200)
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """Those who do not trust it hang up."""


@contextlib.contextmanager
def serving(context=None):
    server = Server(("127.0.0.1", 0), Answer)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def relaying(platform, hosts=(), certificates=""):
    server = socket.create_server(("127.0.0.1", 0))
    relay = Relay(server, platform, hosts, certificates)
    connection = http.client.HTTPConnection(*server.getsockname(), timeout=30)
    try:
        yield connection
    finally:
        connection.close()
        relay.close()


@pytest.fixture(params=["plain", "sealed"])
def platform(request, tmp_path):
    if request.param == "plain":
        with serving() as port:
            yield f"http://127.0.0.1:{port}", ""
        return
    certificate, key = self_signed(tmp_path, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as port:
        yield f"https://127.0.0.1:{port}", str(certificate)


def said(connection, method, path, **what):
    connection.request(method, path, **what)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_requests_follow_each_other_on_one_connection(platform):
    url, certificates = platform
    at = url.partition("//")[2].encode()
    with relaying(url, certificates=certificates) as connection:
        for size in (0, 1, 5_000_000, 10):
            assert said(connection, "POST", "/", body=bytes(size)) == (200, b"%s %d" % (at, size))
        pieces = iter([b"x" * 70_000, b"y", b"z" * 1_000_000])
        assert said(connection, "POST", "/", body=pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}) == (
            200,
            b"%s %d" % (at, 1_070_001),
        )
        status, body = said(connection, "GET", "/8000000")
        assert (status, len(body)) == (200, 8_000_000)


def test_many_callers_at_once_are_all_served(platform):
    url, certificates = platform
    results = []
    with relaying(url, certificates=certificates) as connection:

        def ask(size):
            own = http.client.HTTPConnection(connection.host, connection.port, timeout=30)
            results.append(said(own, "POST", "/", body=bytes(size))[1].split()[1] == b"%d" % size)
            own.close()

        threads = [threading.Thread(target=ask, args=(100_000 + number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 20


def test_a_platform_that_proves_to_be_another_is_not_spoken_to(tmp_path):
    certificate, key = self_signed(tmp_path, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as port, relaying(f"https://127.0.0.1:{port}") as connection:
        status, words = said(connection, "GET", "/1")
    assert status == 502
    assert b"does not answer" in words


def test_a_platform_that_is_away_is_told():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with relaying(f"http://127.0.0.1:{port}") as connection:
        assert said(connection, "GET", "/1")[0] == 502


@pytest.mark.parametrize(
    "request_",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken\r\n\r\n",
        b"GET / HTTP/1.1\r\nName : x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        *(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\nabc\r\n0\r\n\r\n"
            for size in (b"-5", b"+3", b"0x3", b"0_3", b"", b"3" * 60_000)
        ),
        *(
            b"CONNECT x:" + port + b" HTTP/1.1\r\n\r\n"
            for port in (b"9" * 60_000, b"\xb2", b"-5", b"0", b"65536", b"80:80", b"http")
        ),
        b"GET http://x:" + b"9" * 60_000 + b"/ HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        b"GET ftp://127.0.0.1/ HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1",
    ],
)
def test_what_is_no_request_is_refused(request_):
    """And nothing goes wrong in the relay by it, which a thread's failure would tell."""
    with serving() as port, relaying(f"http://127.0.0.1:{port}") as connection:
        caller = socket.create_connection((connection.host, connection.port), timeout=30)
        with caller:
            caller.sendall(request_)
            assert caller.recv(100).split()[1] in (b"400", b"431")


def test_a_name_that_is_none_has_no_address():
    with relaying("", hosts=("*",)) as connection, socket.create_connection((connection.host, connection.port), 30) as caller:
        caller.sendall(b"CONNECT a\x00b:80 HTTP/1.1\r\n\r\n")
        assert caller.recv(100).split()[1] == b"502"


def test_a_declared_host_is_tunnelled_both_ways():
    with serving() as port, relaying("", hosts=(f"127.0.0.1:{port}",)) as connection:
        connection.set_tunnel("127.0.0.1", port)
        assert said(connection, "POST", "/", body=bytes(3_000_000)) == (200, b"127.0.0.1:%d 3000000" % port)
        status, body = said(connection, "GET", "/3000000")
        assert (status, len(body)) == (200, 3_000_000)


def test_without_a_platform_there_is_none():
    with relaying("") as connection:
        assert said(connection, "GET", "/")[0] == 403


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://a.example", Url("http", "a.example", 80)),
        ("https://a.example:8443/x", Url("https", "a.example", 8443)),
        ("https://[::1]:8400", Url("https", "::1", 8400)),
    ],
)
def test_addresses_of_platforms_are_read(text, url):
    assert Url.parse(text) == url


@pytest.mark.parametrize("text", ["", "a.example", "ftp://a.example", "https://"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="no address"):
        Url.parse(text)


def own_addresses():
    return [found.address for cards in psutil.net_if_addrs().values() for found in cards if found.family == socket.AF_INET]


@pytest.mark.parametrize(
    "address", [*own_addresses(), "0.0.0.0", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
)
def test_no_name_leads_to_the_host_itself(address):
    assert not may_be_reached(address)


def test_a_name_leads_elsewhere():
    assert may_be_reached("203.0.113.7")
