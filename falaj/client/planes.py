"""The control plane as a serving plane asks for it. The way in is read again whenever its file changes: tokens are renewed,
addresses move."""

import ssl
from collections.abc import Iterator
from pathlib import Path

from falaj.base.errors import Unavailable
from falaj.base.operation import Operation, Req, Res
from falaj.client.http import Client
from falaj.serving.operations import planes as declared
from falaj.serving.plane.joining import read_join


class ControlPlane:
    """Implements `Control`. Thread-safe as far as it is used: one thread follows, one reports."""

    def __init__(self, join: Path) -> None:
        self._join = join
        self._read_at = 0
        self._client: Client | None = None

    def state(self, after: int) -> declared.SignedState:
        return self._call(declared.READ_STATE, declared.ReadState(after=after))

    def file(self, revision: str, file: str) -> Iterator[bytes]:
        return self._call(declared.FETCH_FILE, declared.FetchFile(revision=revision, file=file)).chunks

    def report(self, report: declared.Report) -> None:
        self._call(declared.SEND_REPORT, report)

    def _call(self, operation: Operation[Req, Res], request: Req) -> Res:
        return self._current().call(operation, request, retry=False)

    def _current(self) -> Client:
        changed = self._join.stat().st_mtime_ns
        if self._client is None or changed != self._read_at:
            join = read_join(self._join)
            try:
                trust = ssl.create_default_context(cafile=join.certificate) if join.certificate else True
            except OSError as error:
                raise Unavailable(f"{join.certificate} cannot be read: {error.strerror or error}.") from None
            self._client, self._read_at = Client(join.url, join.token, verify=trust, timeout=30), changed
        return self._client
