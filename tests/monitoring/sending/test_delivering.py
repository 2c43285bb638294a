"""An alert reaches real receivers, who can tell who sent it; bad ones hold nobody up, and what lies inside is not reached."""

import base64
import email
import email.policy
import hashlib
import hmac
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from falaj.app.certificates import self_signed
from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid, PermanentError, Unavailable
from falaj.monitoring.sending.channels import SCHEMES, Channel, new_secret
from falaj.monitoring.sending.delivering import DELAYS, check, deliver, next_try
from falaj.monitoring.sending.events import Event
from tests.monitoring.sending import receivers
from tests.monitoring.sending.receivers import Mail, Server, Web, says, serving

NOW = Moment.parse("2026-11-15T09:30:00Z")
SECRET = new_secret()
SHORT = 1.5  # seconds that a bad receiver is waited for
EVENT = Event(
    id="0" * 31 + "1",
    kind="alert.raised",
    project="bank",
    endpoint="fraud",
    title="Three features drift",
    sentence="amount, age and city are far from the reference since 9 o'clock.",
    facts={"features": ["amount", "age", "city"], "effect": 0.31},
    severity="critical",
    at=NOW,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("certificate"), ["localhost", "127.0.0.1"])


@pytest.fixture
def receiver(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair[0]))
    with serving(Web, pair) as server:
        yield server


def hook(receiver: Server, host: str = "localhost") -> Channel:
    return Channel(name="hook", kind="webhook", url=f"https://{host}:{receiver.port}/hooks/1?for=me", secret=SECRET)


def chat(receiver: Server) -> Channel:
    return Channel(name="chat", kind="apprise", url=f"mmosts://localhost:{receiver.port}/3ccdd113474722377935511fc85d3dd4")


def mail(server: Server) -> Channel:
    address = f"mailto://localhost:{server.port}?from=falaj@example.com&to=ada@example.com,bob@example.com"
    return Channel(name="mail", kind="apprise", url=address)


def test_a_receiver_can_tell_that_an_alert_is_genuine(receiver: Server) -> None:
    deliver(hook(receiver), EVENT, now=NOW, allow_private=True)
    [(path, headers, body)] = receiver.got
    assert path == "/hooks/1?for=me"
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["host"] == f"localhost:{receiver.port}"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (EVENT.id, str(NOW // SECOND))
    signed = f"{EVENT.id}.{NOW // SECOND}.".encode() + body
    made = hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256)
    assert headers["webhook-signature"] == "v1," + base64.b64encode(made).decode()
    document = json.loads(body)
    assert (document["specversion"], document["type"], document["id"]) == ("1.0", "falaj.alert.raised", EVENT.id)
    assert document["data"]["facts"] == {"features": ["amount", "age", "city"], "effect": 0.31}


def test_to_this_machine_it_may_go_unencrypted_where_receivers_inside_are_allowed() -> None:
    with serving(Web) as server:
        channel = replace(hook(server), url=f"http://localhost:{server.port}/")
        deliver(channel, EVENT, now=NOW, allow_private=True)
        assert len(server.got) == 1
        with pytest.raises(Invalid, match="https"):
            deliver(channel, EVENT, now=NOW)
        assert server.connections == 1


@pytest.mark.parametrize("make", [lambda receiver: hook(receiver, "127.1"), chat])  # looked up, and no address as written
def test_a_name_that_leads_inside_is_not_even_connected_to(receiver: Server, make: Callable[[Server], Channel]) -> None:
    with pytest.raises(PermanentError, match="leads inside a network") as refused:
        deliver(make(receiver), EVENT, now=NOW)
    assert receiver.connections == 0
    assert not re.search(r"127\.|::1", str(refused.value))  # who reads of it learns no address of the network


def test_mail_does_not_go_inside_unless_the_operator_allows_it() -> None:
    with serving(Mail) as server:
        with pytest.raises(PermanentError, match="inside a network"):
            deliver(mail(server), EVENT, now=NOW)
        assert server.connections == 0


@pytest.mark.parametrize("allowed", [False, True])
def test_where_clouds_hand_out_credentials_nothing_goes(allowed: bool) -> None:
    metadata = Channel(name="m", kind="webhook", url="https://169.254.169.254/latest", secret=SECRET)
    with pytest.raises(Invalid, match="inside a network"):
        deliver(metadata, EVENT, now=NOW, allow_private=allowed)
    services = Channel(name="m", kind="apprise", url="mmosts://169.254.169.254/3ccdd113474722377935511fc85d3dd4")
    with pytest.raises(PermanentError, match="inside a network"):
        deliver(services, EVENT, now=NOW, allow_private=allowed)


@pytest.mark.parametrize("answer", [receivers.hangs, receivers.drips])
def test_a_receiver_that_takes_for_ever_is_left_alone(receiver: Server, answer: receivers.Answer) -> None:
    receiver.answer = answer
    with pytest.raises(Unavailable, match=r"within 1\.5 seconds"):
        deliver(hook(receiver), EVENT, now=NOW, allow_private=True, takes=SHORT)


def test_a_service_that_takes_for_ever_is_left_alone(receiver: Server) -> None:
    receiver.answer = receivers.drips
    with pytest.raises(Unavailable, match=r"within 1\.5 seconds"):
        deliver(chat(receiver), EVENT, now=NOW, allow_private=True, takes=SHORT)


def test_an_answer_without_end_is_not_read(receiver: Server) -> None:
    receiver.answer = receivers.never_ends
    deliver(hook(receiver), EVENT, now=NOW, allow_private=True)
    receiver.answer = receivers.has_endless_headers
    with pytest.raises(Unavailable, match="got more than"):
        deliver(hook(receiver), EVENT, now=NOW, allow_private=True)


def test_a_service_that_answers_without_end_takes_no_more_than_its_share(receiver: Server) -> None:
    receiver.answer = receivers.never_ends
    with pytest.raises(Unavailable):
        deliver(chat(receiver), EVENT, now=NOW, allow_private=True, takes=SHORT)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 410])
def test_redirects_are_not_followed_and_what_is_gone_is_not_asked_again(receiver: Server, status: int) -> None:
    receiver.answer = says(status, "location: /elsewhere")
    with pytest.raises(PermanentError, match=f"answered {status}"):
        deliver(hook(receiver), EVENT, now=NOW, allow_private=True)
    assert [path for path, _, _ in receiver.got] == ["/hooks/1?for=me"]


def test_nor_does_a_service_follow_them(receiver: Server) -> None:
    receiver.answer = says(307, "location: /elsewhere")
    with pytest.raises(Unavailable, match="307"):
        deliver(chat(receiver), EVENT, now=NOW, allow_private=True)
    assert [path for path, _, _ in receiver.got] == ["/hooks/3ccdd113474722377935511fc85d3dd4"]


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_what_is_not_taken_may_be_tried_again(receiver: Server, status: int) -> None:
    receiver.answer = says(status)
    with pytest.raises(Unavailable, match=f"answered {status}"):
        deliver(hook(receiver), EVENT, now=NOW, allow_private=True)


def test_a_receiver_without_a_good_certificate_gets_nothing(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(Unavailable, match="SSLCertVerificationError"):
        deliver(hook(receiver), EVENT, now=NOW, allow_private=True)
    assert receiver.got == []


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    channel = Channel(name="hook", kind="webhook", url=f"https://127.0.0.1:{port}/", secret=SECRET)
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        deliver(channel, EVENT, now=NOW, allow_private=True)


def test_a_proxy_in_the_surroundings_is_not_asked(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    deliver(chat(receiver), EVENT, now=NOW, allow_private=True)
    assert len(receiver.got) == 1


def test_a_service_gets_plain_words(receiver: Server) -> None:
    deliver(chat(receiver), EVENT, now=NOW, allow_private=True)
    [(_, _, body)] = receiver.got
    assert "Three features drift" in json.loads(body)["text"]
    assert "apprise" not in body.decode().lower()


def test_a_mail_says_what_is_the_matter_and_has_no_line_of_anybody_elses() -> None:
    event = replace(EVENT, title="amount drifts\r\nBcc: eve@example.com")
    with serving(Mail) as server:
        deliver(mail(server), event, now=NOW, allow_private=True)
        mails = [email.message_from_bytes(body, policy=email.policy.default) for _, _, body in server.got]
        envelopes = " ".join(envelope for envelope, _, _ in server.got)
    assert {one["to"] for one in mails} == {"ada@example.com", "bob@example.com"}
    assert "eve" not in envelopes
    for one in mails:
        assert one["subject"] == "[critical] amount drifts Bcc: eve\uff20example.com"
        assert one["bcc"] is None
        content = one.get_body()
        assert content is not None
        assert "far from the reference since 9 o'clock." in content.get_content()


def test_what_a_service_says_of_a_failure_gives_no_secret_away(receiver: Server) -> None:
    receiver.answer = says(401)
    with pytest.raises(Unavailable) as told:
        deliver(chat(receiver), EVENT, now=NOW, allow_private=True)
    assert "401" in str(told.value)
    assert "3ccdd113474722377935511fc85d3dd4" not in str(told.value)


GOOD = {
    "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "gchat": "gchat://bR0k3n/aaaa-1234/bbbb-9876/",
    "mailto": "mailto://user:password@example.com",
    "mailtos": "mailtos://user:password@example.com?smtp=mail.example.com&to=ada@example.com",
    "mmosts": "mmosts://chat.example.com/3ccdd113474722377935511fc85d3dd4",
    "ntfys": "ntfys://ntfy.example.com/topic",
    "opsgenie": "opsgenie://a-b-c-d-e",
    "pagerduty": "pagerduty://A1BRTD4JD@TIiajkdnlazkcOXrIdevi7F",
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
    "tgram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
    "workflows": "workflows://prod.example.com:443/643e69f83c8944/sP2f5mZ8hqR/",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_good_address_of_every_service_is_taken_and_not_shown(scheme: str) -> None:
    channel = Channel(name="c", kind="apprise", url=GOOD[scheme])
    check(channel)
    assert channel.shown == f"{scheme}://***" + ("@example.com" if scheme.startswith("mailto") else "")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("slack://nothing", "apprise cannot read"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd", "template"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?x=1;TEMPLATE=/etc/passwd", "cannot have"),
        ("mailtos://user:password@example.com?verify=no", "verify"),
        ("mailtos://user:password@example.com?pgp=sign&pgpprv=/etc/key", "pgp, pgpprv"),
        ("ntfys://ntfy.example.com/topic?attach=http://169.254.169.254/", "attach"),
    ],
)
def test_an_address_that_a_service_cannot_be_reached_by_is_refused_when_it_is_set(url: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as told:
        check(Channel(name="c", kind="apprise", url=url))
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in str(told.value)


def test_attempts_are_further_and_further_apart_and_come_to_an_end() -> None:
    waits = [next_try(tries) for tries in range(1, 9)]
    assert waits == [1, 5, 30, 120, 600, 3600, None, None]
    assert list(DELAYS) == sorted(DELAYS)


@pytest.mark.parametrize(
    "way",
    [
        "os.system('true')",
        "subprocess.run(['true'])",
        "os.fork() or os._exit(0)",
        "socket.socket(socket.AF_UNIX).connect('/dev/log')",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 514))",
        "socket.create_connection(('localhost', 9))",
        "socket.socket().connect_ex(('10.0.0.1', 9))",
    ],
)
def test_whatever_apprise_would_do_no_program_starts_and_nothing_inside_is_reached(way: str) -> None:
    program = f"""
import os, socket, subprocess, sys
from falaj.monitoring.sending.outside import Guard
sys.addaudithook(Guard(allow_private=False))
try:
    {way}
except PermissionError as error:
    sys.exit(0 if "inside a network" in str(error) or "no program" in str(error) else 1)
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_apprise_is_imported_by_nothing_but_the_process_that_needs_it() -> None:
    program = "import sys; from falaj.monitoring.sending import delivering, outside; sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
