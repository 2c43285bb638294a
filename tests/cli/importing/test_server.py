"""How a server is spoken to: with credentials, patiently, and with clear words when it refuses."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from falaj.base.errors import Invalid, PermanentError, Unavailable
from falaj.cli.importing import server as module
from falaj.cli.importing.server import ServerSource

Answer = tuple[int, Any]


class Answering:
    """An HTTP server on loopback that answers by a function and remembers what it was asked."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                status, document = answer(self.path, body)
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def answering() -> Iterator[Callable[..., Answering]]:
    made: list[Answering] = []

    def make(answer: Callable[[str, dict[str, Any]], Answer]) -> Answering:
        made.append(Answering(answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)


def names(url: str, **options: str) -> list[str]:
    source = ServerSource(url, **options)
    try:
        return [experiment.name for experiment in source.experiments()]
    finally:
        source.close()


def page(path: str, body: dict[str, Any]) -> Answer:
    """Two pages of experiments."""
    first = {"experiments": [{"experiment_id": "0", "name": "a"}], "next_page_token": "more"}
    last = {"experiments": [{"experiment_id": "1", "name": "b", "lifecycle_stage": "deleted"}]}
    return 200, last if body.get("page_token") == "more" else first


def test_all_pages_are_read(answering: Callable[..., Answering]):
    server = answering(page)
    assert names(server.url) == ["a", "b"]
    assert {path for path, _ in server.asked} == {"/api/2.0/mlflow/experiments/search"}


def test_a_server_below_a_path_is_asked_there_and_for_its_workspace(answering: Callable[..., Answering]):
    server = answering(page)
    assert names(f"{server.url}/tracking/", workspace="risk") == ["a", "b"]
    path, headers = server.asked[0]
    assert path == "/tracking/api/2.0/mlflow/experiments/search"
    assert headers["x-mlflow-workspace"] == "risk"


def test_credentials_come_from_the_variables_of_mlflows_own_clients(
    answering: Callable[..., Answering], monkeypatch: pytest.MonkeyPatch
):
    server = answering(page)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "maryam")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "word")
    names(server.url)
    assert server.asked[-1][1]["authorization"] == "Basic bWFyeWFtOndvcmQ="
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    names(server.url)
    assert server.asked[-1][1]["authorization"] == "Bearer token"
    with pytest.raises(Invalid, match="MLFLOW_TRACKING_PASSWORD"):
        ServerSource("http://maryam:word@127.0.0.1")


def test_a_server_that_is_busy_is_asked_again_and_at_last_given_up(answering: Callable[..., Answering]):
    left = [503, 429]

    def busy(path: str, body: dict[str, Any]) -> Answer:
        return (left.pop(), {}) if left else page(path, body)

    assert names(answering(busy).url) == ["a", "b"]
    server = answering(lambda *_: (500, {"message": "no database"}))
    with pytest.raises(Unavailable, match="no database"):
        names(server.url)
    assert len(server.asked) == module.ATTEMPTS


@pytest.mark.parametrize(
    ("status", "document", "told"),
    [
        (401, {}, "MLFLOW_TRACKING_TOKEN"),
        (403, {"message": "not you"}, "not you"),
        (400, {"message": "odd"}, "odd"),
        (404, {}, "404"),
    ],
)
def test_a_refusal_is_told_and_not_repeated(answering: Callable[..., Answering], status: int, document: Any, told: str):
    server = answering(lambda *_: (status, document))
    with pytest.raises(PermanentError, match=told):
        names(server.url)
    assert len(server.asked) == 1


def test_an_mlflow_without_logged_models_has_none(answering: Callable[..., Answering]):
    source = ServerSource(answering(lambda *_: (404, {})).url)
    assert list(source.logged_models("1")) == []
    source.close()
