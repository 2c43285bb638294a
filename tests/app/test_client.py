"""The typed client: it speaks every declared operation, raises what was raised, retries what may be retried, and streams."""

import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from starlette.routing import Match, Route

from falaj.api.decoding import request_of
from falaj.api.openapi import in_body, url_of
from falaj.api.problems import problem, problem_of
from falaj.app.platform import OPERATIONS
from falaj.base import errors
from falaj.base.errors import FalajError, Forbidden, PermanentError, TemporaryError, Unavailable
from falaj.base.operation import Download, Operation, Record
from falaj.base.values import Nothing
from falaj.client import http as client_module
from falaj.client.environments import client_of_environment
from falaj.client.http import Client
from falaj.governance.identity.operations import CREATE_TOKEN, WHOAMI, CreateToken
from falaj.operations.messages import adapter
from falaj.operations.operations import HEALTH, METRICS, Health
from falaj.storage.operations import BLOB_GET, BLOB_PUT, GetBlob, PutBlob
from falaj.wire.statuses import STATUSES
from tests.app.generated import values_of
from tests.app.running import RunningPlatform

OFFLINE = Client("http://127.0.0.1:1", None)
MEBIBYTE = 1024 * 1024
EFFORT = settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
RESULTS = sorted({operation.result for operation in OPERATIONS} - {Download}, key=lambda result: result.__name__)


# Building and reading


async def _unused(_http: Any) -> None: ...


def understood(operation: Operation[Any, Any], built: Any) -> Any:
    """What a server makes of it: the route that matches, and the request that is read there."""
    route = Route(url_of(operation), _unused, methods=[operation.method])
    path, _, query = built.url.raw_path.partition(b"?")
    assert b"%" not in path
    match, scope = route.matches({"type": "http", "method": built.method, "path": path.decode(), "headers": []})
    assert match is Match.FULL
    body = built.read() if in_body(operation) else None
    if body is not None:
        assert built.headers["content-type"] == "application/json"
    return request_of(operation, scope["path_params"], query, body)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_request_arrives_as_it_was_meant(operation: Operation[Any, Any]):
    @EFFORT
    @given(request=values_of(operation.request))
    def check(request: Any) -> None:
        built = OFFLINE._build(operation, request, iter((b"x",)) if operation.takes_bytes else None)
        assert understood(operation, built) == request
        assert ("idempotency-key" in built.headers) == (operation.record in (Record.CHANGE, Record.TELEMETRY))

    check()


@pytest.fixture(scope="module")
def answering() -> Iterator["tuple[scripted, Client]"]:
    with scripted(HEALTHY) as server, Client(server.url, "token") as client:
        yield server, client


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
def test_every_result_arrives_as_it_was_sent(answering: "tuple[scripted, Client]", result: type[Any]):
    server, client = answering
    operation = _reading(result)

    @EFFORT
    @given(sent=values_of(result))
    def check(sent: Any) -> None:
        server.answer_with(Answer(200, adapter(result).dump_json(sent)))
        assert client.call(operation, Nothing()) == sent

    check()


def _reading(result: type[Any]) -> Operation[Any, Any]:
    """Such a result, fetched the plainest way."""
    return Operation(
        name="test.read",
        summary="",
        method="GET",
        path="test",
        request=Nothing,
        result=result,
        permission=HEALTH.permission,
        scope=HEALTH.scope,
        record=Record.PLAIN_READ,
    )


# A server that answers what it is told to


class Answer:
    """`parts` are sent in chunks instead of the body. `cut` ends the connection after that many bytes of the body, or after the
    parts; 0 before any answer at all."""

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"{}",
        *,
        parts: Callable[[], Iterable[bytes]] | None = None,
        cut: int | None = None,
        **headers: str,
    ) -> None:
        self.status, self.body, self.parts, self.cut, self.headers = status, body, parts, cut, headers


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each small answer would wait 40 ms
    server: "_Server"

    def answer(self) -> None:
        length = int(self.headers.get("content-length", 0))
        content = self.rfile.read(length) if length else b""
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers, content))
        left = self.server.left
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer.cut != 0:
            self._give(answer)
        if answer.cut is not None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def _give(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name.replace("_", "-"), text)
        if answer.parts is None:
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: answer.cut])
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in answer.parts():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if answer.cut is None:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.left = answers
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []


class scripted:  # noqa: N801  (used like a function)
    """A server that gives these answers in turn, the last one for ever; `asked` are the requests that came."""

    def __init__(self, *answers: Answer) -> None:
        self._server = _Server(list(answers))
        self.asked = self._server.asked
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def answer_with(self, *answers: Answer) -> None:
        self._server.left[:] = answers

    def __enter__(self) -> "scripted":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# Errors


def raised_by(client: Client) -> FalajError:
    with pytest.raises(FalajError) as raised:
        client.call(HEALTH, Nothing())
    return raised.value


@pytest.mark.parametrize("kind", [kind for kind, _ in STATUSES], ids=lambda kind: kind.__name__)
def test_an_error_is_raised_as_it_was_raised(kind: type[FalajError], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_module.time, "sleep", lambda _: None)
    original = kind("why", rule="some.rule") if kind is Forbidden else kind("why")
    rendered = problem_of(original, "id")
    headers = {name.decode(): text.decode() for name, text in rendered.raw_headers if name != b"content-length"}
    with scripted(Answer(rendered.status_code, bytes(rendered.body), **headers)) as server, Client(server.url, None) as client:
        raised = raised_by(client)
    # A temporary error of no further kind is told as unavailable; what is our own fault tells a client no more.
    expected = {
        TemporaryError: Unavailable,
        PermanentError: errors.Invalid,
        errors.Corrupt: PermanentError,
        errors.Misconfigured: PermanentError,
    }.get(kind, kind)
    assert type(raised) is expected
    assert str(raised) == "why"
    if isinstance(raised, Forbidden):
        assert raised.rule == "some.rule"


def test_wrong_media_are_an_invalid_request():
    body = bytes(problem(415, "json please", request_id="id").body)
    with (
        scripted(Answer(415, body)) as server,
        Client(server.url, None) as client,
        pytest.raises(errors.Invalid, match="json please"),
    ):
        client.call(HEALTH, Nothing())


@pytest.mark.parametrize("status", [301, 400, 404, 418, 500])
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"detail": 1}', b"\xff"])
def test_an_answer_of_somebody_else_is_an_error_and_no_accident(status: int, body: bytes):
    with scripted(Answer(status, body)) as server, Client(server.url, None) as client, pytest.raises(PermanentError):
        client.call(HEALTH, Nothing())
    assert len(server.asked) == 1, "permanent errors are not retried"


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"", b"[]", b'{"status": 1}', b'{"status": "ok", "version": "1", "more": 1}']
)
def test_a_200_that_is_not_ours_is_an_error_and_no_accident(body: bytes):
    with (
        scripted(Answer(200, body)) as server,
        Client(server.url, None) as client,
        pytest.raises(PermanentError, match="address"),
    ):
        client.call(HEALTH, Nothing())


def test_nobody_there_is_said_plainly():
    with pytest.raises(Unavailable, match="Is it running"):
        OFFLINE.call(HEALTH, Nothing(), retry=False)


# Trying again


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept."""
    times: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", times.append)
    return times


HEALTHY = Answer(200, adapter(Health).dump_json(Health(status="ok", version="1")))
BUSY = b'{"detail": "later"}'


@pytest.mark.parametrize("status", [429, 502, 503, 504, 507])
def test_a_temporary_error_is_tried_again_when_the_server_says(status: int, slept: list[float]):
    answers = (Answer(status, BUSY, retry_after="7"), Answer(status, BUSY, retry_after="2"), HEALTHY)
    with scripted(*answers) as server, Client(server.url, None) as client:
        assert client.call(HEALTH, Nothing()).status == "ok"
    assert len(server.asked) == 3
    assert slept == [7, 2]


@pytest.mark.parametrize("said", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "-5", "1e9", ""])
def test_an_odd_delay_is_a_short_one(said: str, slept: list[float]):
    with scripted(Answer(503, BUSY, retry_after=said), HEALTHY) as server, Client(server.url, None) as client:
        client.call(HEALTH, Nothing())
    assert slept == [1]


def test_no_server_makes_a_client_sleep_for_long(slept: list[float]):
    with scripted(Answer(503, BUSY, retry_after="86400"), HEALTHY) as server, Client(server.url, None) as client:
        client.call(HEALTH, Nothing())
    assert slept == [client_module.LONGEST_WAIT]


def test_it_gives_up_in_the_end(slept: list[float]):
    with scripted(Answer(503, BUSY, retry_after="1")) as server, Client(server.url, None) as client:
        assert type(raised_by(client)) is Unavailable
    assert len(server.asked) == client_module.ATTEMPTS
    assert len(slept) == client_module.ATTEMPTS - 1


def test_a_job_waits_for_a_platform_that_is_away_for_minutes(slept: list[float], monkeypatch: pytest.MonkeyPatch):
    answers = (*[Answer(502, b"from a proxy")] * 120, HEALTHY)
    with scripted(*answers) as server:
        for name, said in {"FALAJ_URL": server.url, "FALAJ_TOKEN": "token", "FALAJ_JOB": "5c6d7e"}.items():
            monkeypatch.setenv(name, said)
        with client_of_environment() as client:
            assert client.call(HEALTH, Nothing()).status == "ok"
    assert len(slept) == 120


def test_a_change_is_tried_again_under_the_same_key(slept: list[float]):
    """Also after a lost answer: the key makes it one effect."""
    made = b'{"id": "%s", "token": "t", "expires": "2026-01-01T00:00:00Z", "zone": ""}' % (b"0" * 32)
    with scripted(Answer(503, BUSY), Answer(cut=0), Answer(200, made)) as server, Client(server.url, "token") as client:
        client.call(CREATE_TOKEN, CreateToken(label="x"))
        client.call(CREATE_TOKEN, CreateToken(label="x"))
    keys = [headers["idempotency-key"] for _, _, headers, _ in server.asked]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0], "another call is another change"
    assert {content for _, _, _, content in server.asked} == {server.asked[0][3]}


def test_an_upload_is_not_tried_again(slept: list[float]):
    with scripted(Answer(503, BUSY)) as server, Client(server.url, "token") as client, pytest.raises(Unavailable):
        client.call(BLOB_PUT, PutBlob(project="p"), chunks=iter((b"only once",)))
    assert len(server.asked) == 1
    assert slept == []


def test_retrying_can_be_left_to_the_caller(slept: list[float]):
    with scripted(Answer(503, BUSY)) as server, Client(server.url, None) as client, pytest.raises(Unavailable):
        client.call(HEALTH, Nothing(), retry=False)
    assert len(server.asked) == 1


# Downloads


def download(client: Client) -> Download:
    return client.call(METRICS, Nothing())


def test_a_download_streams_in_bounded_memory():
    block = b"x" * MEBIBYTE
    with scripted(Answer(parts=lambda: (block for _ in range(64)))) as server, Client(server.url, None) as client:
        tracemalloc.start()
        try:
            total = sum(len(part) for part in download(client).chunks)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert total == 64 * MEBIBYTE
    assert peak < 8 * MEBIBYTE, f"{peak / MEBIBYTE:.1f} MiB at once"


@pytest.mark.parametrize(
    "broken", [Answer(200, b"x" * 100_000, cut=50_000), Answer(parts=lambda: (b"x" * 50_000,), cut=1)], ids=["length", "chunks"]
)
def test_a_download_that_breaks_off_is_an_error(broken: Answer):
    with scripted(broken) as server, Client(server.url, None) as client:
        got = download(client)
        with pytest.raises(Unavailable, match="broke off"):
            b"".join(got.chunks)


def test_a_download_that_is_closed_early_gives_its_connection_back():
    """Begun or not: more of them than a client has connections."""
    with scripted(Answer(200, b"x" * 100_000)) as server, Client(server.url, None, timeout=5) as client:
        for number in range(250):
            got = download(client)
            if number % 2:
                next(got.chunks)
            got.chunks.close()  # type: ignore[attr-defined]
        assert sum(len(part) for part in download(client).chunks) == 100_000


def test_a_download_says_what_it_is():
    answer = Answer(200, b"hello", content_type="text/plain", content_disposition='attachment; filename="a b.txt"')
    with scripted(answer) as server, Client(server.url, None) as client:
        got = download(client)
        assert (got.name, got.media_type, got.size) == ("a b.txt", "text/plain", 5)
        assert b"".join(got.chunks) == b"hello"


# The real thing


def test_bytes_go_up_and_come_down_in_bounded_memory(platform: RunningPlatform):
    block = bytes(range(256)) * 4096
    with platform.client() as client:
        tracemalloc.start()
        try:
            blob = client.call(BLOB_PUT, PutBlob(project="default"), chunks=(block for _ in range(24)))
            got = client.call(BLOB_GET, GetBlob(project="default", blob=blob.id))
            total = sum(len(part) for part in got.chunks)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        part = client.call(BLOB_GET, GetBlob(project="default", blob=blob.id, offset=MEBIBYTE - 3, length=6))
        assert b"".join(part.chunks) == (block + block)[MEBIBYTE - 3 : MEBIBYTE + 3]
    assert blob.size == total == got.size == 24 * MEBIBYTE
    assert peak < 8 * MEBIBYTE, f"{peak / MEBIBYTE:.1f} MiB at once"


def test_one_client_serves_many_threads(platform: RunningPlatform):
    names: list[str] = []
    with platform.client() as client:
        threads = [threading.Thread(target=lambda: names.append(client.call(WHOAMI, Nothing()).name)) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names == ["owner"] * 32


def test_errors_of_a_real_platform_keep_their_kind(platform: RunningPlatform):
    with platform.client() as client:
        with pytest.raises(errors.NotFound):
            client.call(BLOB_GET, GetBlob(project="default", blob="0" * 32))
        with pytest.raises(errors.Forbidden) as refused:
            client.call(CREATE_TOKEN, CreateToken(days=3660))
        assert refused.value.rule == "token.life"
        with pytest.raises(errors.Invalid):
            client.call(CREATE_TOKEN, CreateToken(scopes=("no.such",)))
    with Client(platform.url, "falaj_wrong") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.call(WHOAMI, Nothing())
