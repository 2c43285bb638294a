"""Sends an event to a channel, and says why where that fails.

What leaves does so from a process of its own (`outside`): it may reach the open internet alone, has little memory, and is ended
when its time is over, whatever the receiver does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from falaj import __version__
from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid, PermanentError, Unavailable
from falaj.base.webhooks import signature
from falaj.monitoring.sending.channels import Channel, Kind, check_written
from falaj.monitoring.sending.events import Event, cloud_event, title_of, words_of

DELAYS: Final = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)  # seconds before each further attempt
TAKES: Final[dict[Kind, float]] = {"webhook": 10.0, "apprise": 30.0}  # seconds; mail servers let people wait
_KEPT: Final = ("LD_LIBRARY_PATH", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ")
_LONGEST: Final = 500


class Leash:
    """Ends what is being sent, from another thread: whoever waits for it is told that it was not taken. Thread-safe."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.ended = False

    @contextmanager
    def hold(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        with self._guard:
            self._running.add(process)
            if self.ended:
                process.kill()
        try:
            yield
        finally:
            with self._guard:
                self._running.discard(process)

    def end(self) -> None:
        with self._guard:
            self.ended = True
            for process in self._running:
                process.kill()


def next_try(tries: int) -> float | None:
    """Seconds to wait after so many tries that failed; none once it is given up."""
    return DELAYS[tries - 1] if tries <= len(DELAYS) else None


def check(channel: Channel, *, allow_private: bool = False) -> None:
    """Raises `Invalid` for a channel that nothing can be sent to. Sends nothing."""
    check_written(channel, allow_private=allow_private)
    if channel.kind == "apprise":
        try:
            _outside({"do": "check", "url": channel.url}, allow_private=allow_private, takes=TAKES["apprise"])
        except PermanentError as error:
            raise Invalid(str(error)) from None


def deliver(
    channel: Channel,
    event: Event,
    *,
    now: Moment,
    allow_private: bool = False,
    takes: float | None = None,
    leash: Leash | None = None,
) -> None:
    """Blocks for `takes` seconds at most, or until the leash is ended. Raises `Unavailable` where another attempt may succeed,
    `PermanentError` where none will. A receiver may get an event twice, with the same id. `allow_private` is the operator's
    word that receivers may be inside the network."""
    check_written(channel, allow_private=allow_private)
    order = _webhook(channel, event, now) if channel.kind == "webhook" else _message(channel, event)
    _outside(order, allow_private=allow_private, takes=takes or TAKES[channel.kind], leash=leash)


def _webhook(channel: Channel, event: Event, now: Moment) -> dict[str, Any]:
    body, timestamp = cloud_event(event), str(now // SECOND)
    headers = {
        "content-type": "application/cloudevents+json; charset=utf-8",
        "user-agent": f"falaj/{__version__}",
        "connection": "close",
        "webhook-id": event.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature(channel.secret, event.id, timestamp, body),
    }
    return {"do": "post", "url": channel.url, "headers": headers, "body": body.decode()}


def _message(channel: Channel, event: Event) -> dict[str, Any]:
    words = {"title": title_of(event), "words": words_of(event), "severity": event.severity}
    return {"do": "notify", "url": channel.url, **words}


def _outside(order: dict[str, Any], *, allow_private: bool, takes: float, leash: Leash | None = None) -> None:
    """The order goes by a pipe: it has secrets in it. Proxies are not passed on: behind one nobody sees where names lead."""
    written = json.dumps({**order, "allow_private": allow_private, "takes": takes}).encode()
    try:
        with (
            subprocess.Popen(
                [sys.executable, "-I", "-m", "falaj.monitoring.sending.outside"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
            ) as process,
            (leash or Leash()).hold(process),
        ):
            try:
                answer, _ = process.communicate(written, timeout=takes)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired:
        raise Unavailable(f"it was not taken within {takes:g} seconds") from None
    except OSError as error:
        raise Unavailable(f"nothing can be sent from this machine now: {error.strerror}") from None
    try:
        told = json.loads(answer)
    except ValueError:
        raise Unavailable("what sends alerts ended without a word; the answer may have been too large for it") from None
    if told["outcome"] == "refused":
        raise PermanentError(told["words"][:_LONGEST])
    if told["outcome"] != "taken":
        raise Unavailable(told["words"][:_LONGEST])
