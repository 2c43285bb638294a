"""Pushing rows as they happen, from a service or a notebook: gathered for a moment, sent in order, and again where an answer
got lost, under a key of each, so that no row counts twice."""

import json
import secrets
import threading
import time
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Self

from falaj.base.errors import Conflict, Invalid, TemporaryError
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.datasets.operations.pushing import PUSH_ROWS, PushRows

MOST_BYTES: Final = 8 << 20
LONGEST_WAIT: Final = 10.0
_AHEAD: Final = 4  # pushes that are gathered while one is on its way; then whoever brings rows waits


def pusher(
    dataset: str,
    *,
    project: str = "",
    client: Client | None = None,
    create: bool = False,
    rows: int = 1000,
    seconds: float = 1.0,
    patience: float = 600.0,
) -> "Pusher":
    """Rows for a dataset, as they happen: `with falaj.pusher("events") as events: events.push({"id": 1})`.

    A push is sent as soon as there are so many `rows`, or after so many `seconds`; where the platform does not answer it is
    sent again for as long as `patience`. What was taken and not answered when the process is killed is lost with it: `flush`
    waits until all of it is safe. The platform is the client's, or that of FALAJ_URL and FALAJ_TOKEN; the project
    FALAJ_PROJECT's.
    """
    request = PushRows(project=project_of_environment(project), dataset=dataset, create=create)
    own = client_of_environment() if client is None else None
    return Pusher(client or own, request, own=own, rows=rows, seconds=seconds, patience=patience)  # type: ignore[arg-type]


class Pusher:
    """Thread-safe. Rows are in the dataset in the order in which they were pushed here. Once a push was refused everything
    raises that: `pushed` says how many rows are safe."""

    def __init__(
        self, caller: Client, request: PushRows, *, own: Client | None = None, rows: int, seconds: float, patience: float
    ) -> None:
        self._caller, self._request, self._own = caller, request, own
        self._rows, self._seconds, self._patience = rows, seconds, patience
        self._lines: list[bytes] = []
        self._since = 0.0
        self._changed = threading.Condition()
        self._hurry = self._closing = self._sending = False
        self._error: Exception | None = None
        self._run, self._number = secrets.token_urlsafe(12), 0
        self.pushed = 0
        self._thread = threading.Thread(target=self._work, name=f"pushing to {request.dataset}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def push(self, *rows: Mapping[str, Any]) -> None:
        """Take rows, and send them soon. Raises `Invalid` for what cannot be written as JSON, and what a push was refused
        for."""
        for line in [_line(row) for row in rows]:
            self.push_line(line)

    def push_line(self, line: bytes) -> None:
        """One row that is JSON already, without the end of its line."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < _AHEAD * self._rows or self._error or self._closing)
            self._raise_error()
            if self._closing:
                raise Conflict("This pusher is closed.")
            if not self._lines:
                self._since = time.monotonic()
            self._lines.append(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Return once everything that was taken is safe. Raises what a push was refused for."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or (not self._lines and not self._sending))
            self._hurry = False
            self._raise_error()

    def close(self) -> None:
        """Flush, and end."""
        try:
            self.flush()
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            if self._own is not None:
                self._own.close()

    # Steps

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (lines := self._next()) is not None:
            try:
                self._send(lines)
            except Exception as error:  # noqa: BLE001 - whoever pushes is told
                with self._changed:
                    self._error, self._sending = error, False
                    self._changed.notify_all()
                return
            with self._changed:
                self.pushed += len(lines)
                self._sending = False
                self._changed.notify_all()

    def _next(self) -> list[bytes] | None:
        """The next push, once there are rows enough, or the first has waited long enough; None at the end."""
        with self._changed:
            while not self._closing:
                missing = self._since + self._seconds - time.monotonic() if self._lines else None
                if self._lines and (self._hurry or len(self._lines) >= self._rows or (missing or 0.0) <= 0):
                    break
                self._changed.wait(missing)
            if self._closing:
                return None
            lines, self._lines = _cut(self._lines, self._rows)
            self._sending, self._since = True, time.monotonic()
            self._changed.notify_all()
            return lines

    def _send(self, lines: list[bytes]) -> None:
        self._number += 1
        request = PushRows(
            project=self._request.project,
            dataset=self._request.dataset,
            key=f"{self._run}-{self._number}",
            time_zone=self._request.time_zone,
            create=self._request.create,
            first_line=self.pushed + 1,
        )
        content, until, attempt = b"\n".join(lines) + b"\n", time.monotonic() + self._patience, 0
        while True:
            attempt += 1
            try:
                self._caller.call(PUSH_ROWS, request, chunks=[content])
                return
            except TemporaryError as error:
                if time.monotonic() > until:
                    raise
                time.sleep(min(error.delay * attempt, LONGEST_WAIT))


def _cut(lines: list[bytes], rows: int) -> tuple[list[bytes], list[bytes]]:
    """One push: so many rows, and not too many bytes, but one row at least."""
    size, end = 0, 0
    while end < min(rows, len(lines)) and (not end or size + len(lines[end]) < MOST_BYTES):
        size += len(lines[end]) + 1
        end += 1
    return lines[:end], lines[end:]


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(row), default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"This row cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "item"):  # a number of numpy's
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON")
