"""Asking a serving plane on behalf of somebody who sits before the console."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from falaj.base.errors import TooLarge, Unavailable
from falaj.web.serving.predictor import Prediction, Question
from falaj.wire.pinning import pinned

TO_CONNECT: Final = 3.0
TO_ANSWER: Final = 10.0
LARGEST_ANSWER: Final = 1024 * 1024


class PlanePredictor:
    def __init__(self, *, to_answer: float = TO_ANSWER) -> None:
        self._to_answer = to_answer

    def predict(self, question: Question) -> Prediction:
        connection, path = _place(question.url, question.certificates)
        headers = {"authorization": f"Bearer {question.token}", "content-type": "application/json"}
        if question.key:
            headers["x-falaj-key"] = question.key
        if question.revision:
            headers["x-falaj-revision"] = str(question.revision)
        started = time.monotonic()
        try:
            connection.connect()
            with _ended_after(self._to_answer, connection.sock):
                connection.request("POST", f"{path}/v2/endpoints/{question.endpoint}/predict", question.body, headers)
                answer = connection.getresponse()
                content = answer.read(LARGEST_ANSWER + 1)
        except (OSError, HTTPException) as error:
            raise Unavailable(f"The serving plane at {question.url} did not answer in time: {_words(error)}.") from None
        finally:
            connection.close()
        if len(content) > LARGEST_ANSWER:
            raise TooLarge(f"The answer is larger than {LARGEST_ANSWER} bytes; ask for fewer records, or from a program.")
        return Prediction(
            status=answer.status,
            document=_document(content, question.url),
            revision=_number(answer, "x-falaj-revision"),
            version=_number(answer, "x-falaj-model-version"),
            milliseconds=(time.monotonic() - started) * 1000,
        )


def _place(url: str, certificates: Sequence[str]) -> tuple[HTTPConnection, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_address(url) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise _no_address(url)
    path = parts.path.rstrip("/")
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, port, timeout=TO_CONNECT), path
    trust = pinned(ssl.create_default_context(), certificates)
    return HTTPSConnection(parts.hostname, port, timeout=TO_CONNECT, context=trust), path


@contextmanager
def _ended_after(seconds: float, sock: socket.socket) -> Iterator[None]:
    """Ends a connection that takes too long as a whole: each of its reads alone may well be in time."""
    late = threading.Event()
    sock.settimeout(seconds)
    timer = threading.Timer(seconds, _cut, (sock, late))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if late.is_set():  # what was read until then may look like a whole answer
        raise TimeoutError(f"nothing whole within {seconds:g} seconds")


def _cut(sock: socket.socket, late: threading.Event) -> None:
    late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _document(content: bytes, url: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Unavailable(f"What answers at {url} is no serving plane.") from None


def _number(answer: HTTPResponse, name: str) -> str:
    text = answer.headers.get(name, "")
    return text if text.isascii() and text.isdigit() and len(text) < 20 else ""


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _no_address(url: str) -> Unavailable:
    return Unavailable(f"The plane reports {url!r} as its address, which is none that can be asked.")
