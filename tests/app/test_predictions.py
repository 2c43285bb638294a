"""Asking a plane for somebody at the console: soon, once, only what is a plane, and never more than a little."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from falaj.app.predictions import LARGEST_ANSWER, PlanePredictor
from falaj.base.errors import TooLarge, Unavailable
from falaj.web.serving.predictor import Question
from tests.web.served import answering


def question(url: str, body: bytes = b'{"a": 1}') -> Question:
    return Question(url=url, token="secret", endpoint="scores", body=body, key="ann", revision=2)


def test_the_question_arrives_and_the_answer_comes_back() -> None:
    with answering() as plane:
        said = PlanePredictor().predict(question(plane.url + "/"))
        [(path, headers, body)] = plane.asked
    assert (path, body) == ("/v2/endpoints/scores/predict", {"a": 1})
    wanted = {
        "authorization": "Bearer secret",
        "x-falaj-key": "ann",
        "x-falaj-revision": "2",
        "content-type": "application/json",
    }
    assert wanted.items() <= headers.items()
    assert (said.status, said.document, said.revision, said.version) == (200, {"predictions": [0.25]}, "1", "1")


def test_a_refusal_is_an_answer() -> None:
    with answering() as plane:
        plane.status, plane.content = 400, b'{"error": "record 0 lacks age"}'
        said = PlanePredictor().predict(question(plane.url))
    assert (said.status, said.document) == (400, {"error": "record 0 lacks age"})


def test_a_redirect_is_not_followed() -> None:
    with answering() as elsewhere, answering() as plane:
        plane.status, plane.headers, plane.content = 307, {"location": elsewhere.url}, b"{}"
        assert PlanePredictor().predict(question(plane.url)).status == 307
        assert elsewhere.asked == []


def test_what_is_no_plane_is_not_shown() -> None:
    with answering() as other:
        for content in (b"<html>secret</html>", b"\xff\xfe", b"[" * 200_000):
            other.content = content
            with pytest.raises(Unavailable, match="no serving plane") as told:
                PlanePredictor().predict(question(other.url))
            assert "secret" not in str(told.value)


def test_an_answer_of_any_length_is_cut() -> None:
    with answering() as plane:
        plane.content = json.dumps({"predictions": ["x" * LARGEST_ANSWER]}).encode()
        with pytest.raises(TooLarge):
            PlanePredictor().predict(question(plane.url))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://user:word@127.0.0.1/",
        "http://",
        "127.0.0.1:80",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://127.0.0.1/?a=b",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nhost: other",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Unavailable):
        PlanePredictor().predict(question(url))


def test_nobody_there_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="did not answer"):
            PlanePredictor().predict(question(f"http://127.0.0.1:{free.getsockname()[1]}"))


@contextmanager
def dripping() -> Iterator[str]:
    """Sends a byte of a header now and then, so that no single read is ever late."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            with listener.accept()[0] as caller:
                caller.recv(65536)
                try:
                    caller.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
                    while not ended.wait(0.05):
                        caller.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_one_that_drips_is_left_in_time() -> None:
    with dripping() as url, pytest.raises(Unavailable, match="did not answer in time"):
        PlanePredictor(to_answer=0.5).predict(question(url))
