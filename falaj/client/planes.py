"""The control plane as a serving plane asks for it. The way in is read again whenever its file changes: tokens are renewed,
addresses move."""

import logging
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from falaj.base.clock import Clock, SystemClock
from falaj.base.errors import FalajError, Unavailable
from falaj.base.operation import Operation, Req, Res
from falaj.client.http import Client
from falaj.serving.operations import planes as declared
from falaj.serving.plane.joining import Join, read_join, renewal_of, write_join

log = logging.getLogger(__name__)
PEM: Final = "-----BEGIN"
_TRIES_AGAIN: Final = 60.0


class ControlPlane:
    """Implements `Control`. Thread-safe as far as it is used: one thread follows, one reports. Who follows renews the token."""

    def __init__(self, join: Path, *, clock: Clock | None = None, patience: float = _TRIES_AGAIN) -> None:
        self._join = join
        self._clock = clock or SystemClock()
        self._patience = patience
        self._read_at = 0
        self._client: Client | None = None
        self._renew_at = 0
        self._not_before = 0.0
        self._to_retire = False

    def state(self, after: int) -> declared.SignedState:
        current = self._current()
        if self._is_due() and time.monotonic() >= self._not_before:
            try:
                self._renew(current)
            except FalajError as error:
                log.warning("the plane's token was not renewed, which is tried again: %s", error)
                self._not_before = time.monotonic() + self._patience
        return self._call(declared.READ_STATE, declared.ReadState(after=after))

    def file(self, revision: str, file: str) -> Iterator[bytes]:
        return self._call(declared.FETCH_FILE, declared.FetchFile(revision=revision, file=file)).chunks

    def report(self, report: declared.Report) -> None:
        self._call(declared.SEND_REPORT, report)

    def _is_due(self) -> bool:
        return self._to_retire or bool(self._renew_at and self._clock.now() >= self._renew_at)

    def _renew(self, current: Client) -> None:
        """The old token is ended with the new one, once that is written down: no moment is without a good one."""
        if not self._to_retire:
            made = current.call(declared.RENEW_TOKEN, declared.RenewToken(), retry=False)
            renew_at = renewal_of(self._clock.now(), made.expires)
            write_join(self._join, replace(read_join(self._join), token=made.token, renew_at=renew_at))
            self._to_retire = True
        self._call(declared.RETIRE_TOKENS, declared.RetireTokens())
        self._to_retire = False

    def _call(self, operation: Operation[Req, Res], request: Req) -> Res:
        return self._current().call(operation, request, retry=False)

    def _current(self) -> Client:
        changed = self._join.stat().st_mtime_ns
        if self._client is None or changed != self._read_at:
            join = read_join(self._join)
            self._client, self._read_at = Client(join.url, join.token, verify=_trust(join), timeout=30), changed
            self._renew_at = join.renew_at
        return self._client


def _trust(join: Join) -> ssl.SSLContext | bool:
    """The certificate is a file of this host, or came with the join document."""
    if not join.certificate:
        return True
    try:
        if join.certificate.startswith(PEM):
            return ssl.create_default_context(cadata=join.certificate)
        return ssl.create_default_context(cafile=join.certificate)
    except OSError as error:
        raise Unavailable(f"The platform's certificate cannot be read: {error.strerror or error}.") from None
