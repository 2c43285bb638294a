"""Answers are sent to real receivers: signed so that they can tell, again while they do not take them, and nowhere else."""

import asyncio
import base64
import hashlib
import hmac
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from falaj.app.certificates import self_signed
from falaj.base.clock import SECOND, SystemClock
from falaj.base.errors import Forbidden, Invalid, NotFound, Unavailable
from falaj.serving.plane import callbacks
from falaj.serving.plane.callbacks import SignedCallbacks
from falaj.serving.plane.rest.stores import Kept
from falaj.serving.states import Endpoint

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
KEPT = Kept(status=200, kind=b"application/json", lines=b"x-falaj-revision: 3\r\n", body=b'{"outputs":[]}')


class Receiver(ThreadingHTTPServer):
    """Answers with the statuses it is told, one after the other, and then 200 for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Known:
    """One endpoint, for the token `good`."""

    def __init__(self, *hosts: str, secret: str = SECRET) -> None:
        self.endpoint: Endpoint | None = Endpoint(
            id="e" * 32,
            project="p" * 32,
            project_name="p",
            name="fraud",
            arms=(),
            revisions=(),
            callbacks=hosts,
            callback_secret=secret,
        )

    def endpoint_named(self, token: str, name: str) -> Endpoint:
        if token != "good" or self.endpoint is None or name != self.endpoint.name:
            raise NotFound("no such endpoint")
        return self.endpoint

    def endpoint_by_id(self, id: str) -> Endpoint | None:
        return self.endpoint if self.endpoint is not None and id == self.endpoint.id else None


def made(known: Known, *, trust: ssl.SSLContext | None = None, tries: int = 2) -> SignedCallbacks:
    return SignedCallbacks(known, SystemClock(), delays=(0.01,) * tries, trust=trust, jitter=lambda: 1.0)


def send(sender: SignedCallbacks, url: str, kept: Kept = KEPT, endpoint: str = "e" * 32) -> None:
    asyncio.run(sender.send(url=url, endpoint=endpoint, id="a1b2", kept=kept))


def test_a_receiver_can_tell_that_an_answer_is_genuine(receiver: Receiver) -> None:
    sender = made(Known(f"localhost:{receiver.port}"))
    url = f"http://localhost:{receiver.port}/hook?for=me"
    assert sender.permit("good", "fraud", url) == "e" * 32
    send(sender, url)
    [(path, fields, body)] = receiver.got
    assert (path, body) == ("/hook?for=me", KEPT.body)
    assert (fields["webhook-id"], fields["x-falaj-revision"], fields["x-falaj-status"]) == ("a1b2", "3", "200")
    assert (fields["content-type"], fields["x-falaj-endpoint"]) == ("application/json", "fraud")
    assert abs(int(fields["webhook-timestamp"]) - SystemClock().now() // SECOND) < 10
    signed = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body
    right = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert fields["webhook-signature"] == f"v1,{right}"


def test_what_is_not_taken_is_sent_again_with_the_same_id(receiver: Receiver) -> None:
    receiver.statuses = [503, 500]
    send(made(Known("127.0.0.1")), f"http://127.0.0.1:{receiver.port}/")
    assert [fields["webhook-id"] for _, fields, _ in receiver.got] == ["a1b2"] * 3


def test_attempts_come_to_an_end(receiver: Receiver) -> None:
    receiver.statuses = [500] * 10
    send(made(Known("127.0.0.1")), f"http://127.0.0.1:{receiver.port}/")
    assert len(receiver.got) == 3


@pytest.mark.parametrize("status", [302, 307, 410])
def test_redirects_are_not_followed_and_a_receiver_that_is_gone_is_left_alone(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    send(made(Known("127.0.0.1")), f"http://127.0.0.1:{receiver.port}/")
    assert [path for path, _, _ in receiver.got] == ["/"]


def test_a_name_that_leads_inside_is_not_connected_to(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    url, sender = f"https://hooks.example.com:{receiver.port}/", made(Known("hooks.example.com"))
    sender.permit("good", "fraud", url)

    async def send_with_a_lying_name() -> None:
        async def lies(host: str, port: int, **_: object) -> list[object]:
            return [(2, 1, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lies)
        await sender.send(url=url, endpoint="e" * 32, id="a1b2", kept=KEPT)

    asyncio.run(send_with_a_lying_name())
    assert receiver.got == []


def test_who_may_not_call_and_where_nothing_may_go_is_refused_at_once() -> None:
    sender = made(Known("hooks.example.com"))
    with pytest.raises(NotFound):
        sender.permit("bad", "fraud", "https://hooks.example.com/")
    with pytest.raises(Forbidden, match="169"):
        sender.permit("good", "fraud", "https://169.254.169.254/")
    with pytest.raises(Invalid):
        sender.permit("good", "fraud", "gopher://hooks.example.com/")
    with pytest.raises(Unavailable):
        made(Known("hooks.example.com", secret="")).permit("good", "fraud", "https://hooks.example.com/")


def test_a_host_that_was_struck_off_gets_nothing_any_more(receiver: Receiver) -> None:
    known = Known("127.0.0.1")
    sender, url = made(known), f"http://127.0.0.1:{receiver.port}/"
    sender.permit("good", "fraud", url)
    known.endpoint = Known("hooks.example.com").endpoint
    send(sender, url)
    known.endpoint = None
    send(sender, url)
    assert receiver.got == []


def test_https_is_checked_against_the_certificate(receiver: Receiver, tmp_path: Path) -> None:
    certificate, private_key = self_signed(tmp_path, ["localhost"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, private_key)
    receiver.socket = server.wrap_socket(receiver.socket, server_side=True)
    url = f"https://localhost:{receiver.port}/"
    send(made(Known("localhost"), tries=0), url)
    assert receiver.got == []  # nobody vouches for it
    send(made(Known("localhost"), trust=ssl.create_default_context(cafile=str(certificate))), url)
    assert len(receiver.got) == 1


def test_a_flood_of_callbacks_of_one_endpoint_is_bounded(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_PENDING", 3)
    sender, url = made(Known("127.0.0.1")), f"http://127.0.0.1:{receiver.port}/"

    async def flood() -> None:
        await asyncio.gather(*(sender.send(url=url, endpoint="e" * 32, id=str(n), kept=KEPT) for n in range(10)))

    asyncio.run(flood())
    assert sorted(fields["webhook-id"] for _, fields, _ in receiver.got) == ["0", "1", "2"]


def test_what_answers_but_does_not_speak_http_is_tried_again_and_given_up() -> None:
    met = []

    async def babble() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.append(await reader.read(10))
            writer.write(b"220 smtp.example.com ESMTP\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sender = made(Known("127.0.0.1"))
        await sender.send(url=f"http://127.0.0.1:{port}/", endpoint="e" * 32, id="a1b2", kept=KEPT)
        server.close()
        await server.wait_closed()

    asyncio.run(babble())
    assert len(met) == 3
