"""Asking serving planes, in plain records: whichever is well."""

import secrets
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx

from falaj.base.errors import PermanentError, Unavailable
from falaj.wire.statuses import kind_of

FORGIVEN_AFTER: Final = 10.0  # seconds
_TIMEOUT: Final = httpx.Timeout(60, connect=5)


class Planes:
    """The planes that answer for the same endpoints. Not thread-safe.

    Each call begins with one that has not failed of late, another one each time; then come those whose failure lies furthest
    back. A plane that gives no answer, or says that it is not able to (503), costs a call nothing but time.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: str,
        *,
        trust: ssl.SSLContext | bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if not urls:
            raise Unavailable("No serving plane answers for this now.")
        self._urls, self._token, self._trust, self._now = tuple(urls), token, trust, now
        self._failed: dict[str, float] = {}
        self._turn = secrets.randbelow(len(urls))

    def order(self) -> list[str]:
        """Whom the next call asks, one after the other until one answers."""
        forgiven = self._now() - FORGIVEN_AFTER
        self._failed = {url: at for url, at in self._failed.items() if at > forgiven}
        well = [url for url in self._urls if url not in self._failed]
        self._turn += 1
        first = self._turn % len(well) if well else 0
        return [*well[first:], *well[:first], *sorted(self._failed, key=lambda url: self._failed[url])]

    def predict(
        self, endpoint: str, records: Sequence[Any], *, key: str = "", revision: int = 0, id: str = ""
    ) -> dict[str, Any]:
        """The answer of one plane. What it refuses is raised as the error it was. Labels find the prediction by `id`."""
        headers = {"authorization": f"Bearer {self._token}"}
        if key:
            headers["x-falaj-key"] = key
        if revision:
            headers["x-falaj-revision"] = str(revision)
        if id:
            headers["x-falaj-id"] = id
        body = {"rows" if records and isinstance(records[0], list) else "records": list(records)}
        return self._asked("POST", f"/v2/endpoints/{endpoint}/predict", headers, body)

    def inputs(self, endpoint: str, revision: int) -> list[dict[str, Any]]:
        """Name, datatype and shape of each tensor that the revision takes, as a plane knows them that has loaded it."""
        headers = {"authorization": f"Bearer {self._token}"}
        return list(self._asked("GET", f"/v2/models/{endpoint}/versions/{revision}", headers)["inputs"])

    def _asked(self, method: str, path: str, headers: dict[str, str], body: dict[str, Any] | None = None) -> dict[str, Any]:
        failure: Unavailable | None = None
        with httpx.Client(verify=self._trust, timeout=_TIMEOUT, trust_env=False, headers=headers) as http:
            for url in self.order():
                try:
                    answer = _answer(http, method, url, path, body)
                except Unavailable as error:
                    self._failed[url] = self._now()
                    failure = error
                else:
                    self._failed.pop(url, None)
                    return answer
        raise failure or Unavailable("No serving plane answers for this now.")


def _answer(http: httpx.Client, method: str, url: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    try:
        response = http.request(method, url + path, json=body)
    except httpx.TransportError as error:
        raise Unavailable(f"No answer from {url}: {error}.") from error
    try:
        document = response.json()
    except ValueError:
        raise PermanentError(f"{url} does not answer like a serving plane; is the address right?") from None
    if response.status_code != 200:
        raise kind_of(response.status_code)(str(document.get("error", response.text)))
    return dict(document)
