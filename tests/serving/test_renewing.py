"""A plane's token is renewed in time, and whatever goes wrong with that, the plane goes on with one that is good."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from falaj.base.clock import DAY, Moment, SystemClock
from falaj.client.planes import ControlPlane
from falaj.serving.plane.joining import Join, read_join, renewal_of, write_join


class Control(ThreadingHTTPServer):
    """A control plane that knows two tokens, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.good = {"old"}
        self.failing: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def answer(self, path: str, token: str) -> tuple[int, object]:
        self.asked.append((path, token))
        if path in self.failing:
            return 503, {"error": {"kind": "unavailable", "message": "not now"}}
        if token not in self.good:
            return 401, {"error": {"kind": "unauthenticated", "message": "unknown"}}
        if path == "/v1/plane/token":
            self.good.add("new")
            return 200, {"token": "new", "expires": str(Moment(SystemClock().now() + 90 * DAY))}
        if path == "/v1/plane/tokens":
            self.good = {token}
            return 200, {}
        return 200, {"serial": 7}


class _Handler(BaseHTTPRequestHandler):
    server: Control
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        token = self.headers["authorization"].removeprefix("Bearer ")
        status, document = self.server.answer(self.path.partition("?")[0], token)
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def control() -> Iterator[Control]:
    server = Control()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def joined(folder: Path, control: Control, *, renew_at: int) -> Path:
    url = f"http://127.0.0.1:{control.server_address[1]}"
    write_join(folder / "plane.json", Join(name="p", zone="home", url=url, token="old", keys={}, renew_at=renew_at))
    return folder / "plane.json"


def test_a_token_is_renewed_when_its_time_has_come_and_the_old_one_ended_with_the_new(tmp_path, control):
    file = joined(tmp_path, control, renew_at=1)
    way = ControlPlane(file)
    assert way.state(0).serial == 7
    assert [path for path, _ in control.asked] == ["/v1/plane/token", "/v1/plane/tokens", "/v1/plane/state"]
    assert (read_join(file).token, control.good) == ("new", {"new"})
    way.state(0)
    assert len(control.asked) == 4  # and not again
    assert way.state(0).serial == 7


@pytest.mark.parametrize("renew_at", [0, 2**60])
def test_a_token_whose_time_has_not_come_or_that_another_renews_is_left(tmp_path, control, renew_at):
    ControlPlane(joined(tmp_path, control, renew_at=renew_at)).state(0)
    assert control.asked == [("/v1/plane/state", "old")]


def test_a_renewal_that_fails_holds_nothing_up_and_is_tried_again(tmp_path, control):
    control.failing = {"/v1/plane/token"}
    file = joined(tmp_path, control, renew_at=1)
    patient, eager = ControlPlane(file), ControlPlane(file, patience=0)
    for _ in range(3):
        assert patient.state(0).serial == 7
    assert [path for path, _ in control.asked].count("/v1/plane/token") == 1  # not with every question
    assert eager.state(0).serial == 7
    control.failing = set()
    assert eager.state(0).serial == 7
    assert control.good == {"new"}


def test_an_old_token_that_could_not_be_ended_is_ended_later(tmp_path, control):
    control.failing = {"/v1/plane/tokens"}
    file = joined(tmp_path, control, renew_at=1)
    way = ControlPlane(file, patience=0)
    assert way.state(0).serial == 7
    assert (read_join(file).token, control.good) == ("new", {"old", "new"})
    control.failing = set()
    way.state(0)
    assert control.good == {"new"}
    assert [path for path, _ in control.asked].count("/v1/plane/token") == 1


def test_a_third_of_its_life_is_left_when_a_token_is_renewed():
    assert renewal_of(Moment(0), Moment(90 * DAY)) == 60 * DAY
