"""Calling operations over HTTP. What the server refuses is raised as the same error that was raised there."""

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Self

import httpx
from pydantic import ValidationError
from pydantic_core import to_json

from falaj.base import errors
from falaj.base.errors import FalajError, Forbidden, PermanentError, TemporaryError
from falaj.base.operation import Download, Operation, Record, Req, Res
from falaj.operations.messages import adapter
from falaj.wire.statuses import kind_of

ATTEMPTS = 4
LONGEST_WAIT = 10.0


class Client:
    """A connection to one platform. Thread-safe.

    Temporary errors are retried with the delay the server asks for. A change carries an idempotency key, so that a retry after
    a lost answer does nothing twice; uploads are not retried, for their bytes can be read only once. Whoever gives a `key` of
    his own can even be killed and ask again.
    """

    def __init__(
        self, url: str, token: str | None, *, verify: Any = True, timeout: float = 60.0, attempts: int = ATTEMPTS
    ) -> None:
        self._attempts = attempts
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._connect = partial(httpx.Client, base_url=url, headers=headers, verify=verify, timeout=timeout, trust_env=False)
        self._by_process = {os.getpid(): self._connect()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def _http(self) -> httpx.Client:
        """A fork, as of a loader of data, must not speak over the connections of the process it came from."""
        if (found := self._by_process.get(os.getpid())) is None:
            found = self._by_process.setdefault(os.getpid(), self._connect())
        return found

    def call(
        self,
        operation: Operation[Req, Res],
        request: Req,
        *,
        chunks: Iterable[bytes] | None = None,
        retry: bool = True,
        key: str = "",
    ) -> Res:
        """Do it. `chunks` are the bytes of an operation that takes bytes; a `Download` streams, to be read or closed."""
        http = self._build(operation, request, chunks, key)
        attempts = self._attempts if retry and chunks is None else 1
        for attempt in range(1, attempts + 1):
            try:
                return self._once(operation, http)
            except TemporaryError as error:
                if attempt == attempts:
                    raise
                time.sleep(min(error.delay, LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _build(
        self, operation: Operation[Any, Any], request: Any, chunks: Iterable[bytes] | None, key: str = ""
    ) -> httpx.Request:
        fields: dict[str, Any] = adapter(operation.request).dump_python(request, mode="json")
        path = operation.path.format(**{name: fields.pop(name) for name in operation.path_fields})
        url = path if path.startswith("/") else f"/v1/{path}"
        headers = {}
        if operation.record in (Record.CHANGE, Record.TELEMETRY):
            headers["idempotency-key"] = key or secrets.token_urlsafe(24)
        if operation.takes_bytes:
            headers["content-type"] = "application/octet-stream"
            return self._http.build_request(
                operation.method, url, params=_query(fields), content=chunks or b"", headers=headers
            )
        if operation.method in ("POST", "PUT"):
            headers["content-type"] = "application/json"
            body = to_json(fields, inf_nan_mode="strings")
            return self._http.build_request(operation.method, url, content=body, headers=headers)
        return self._http.build_request(operation.method, url, params=_query(fields), headers=headers)

    def _once(self, operation: Operation[Any, Res], http: httpx.Request) -> Res:
        try:
            response = self._http.send(http, stream=True)
            if response.status_code != 200:
                response.read()
                raise _error_of(response)
            if operation.result is Download:
                return _download(response)  # type: ignore[return-value]
            return adapter(operation.result).validate_json(response.read())  # type: ignore[no-any-return]
        except ValidationError as error:
            raise PermanentError(f"{http.url} does not answer like this version of Falaj; is the address right?") from error
        except httpx.TransportError as error:
            raise errors.Unavailable(f"No answer from {self._http.base_url}: {error}. Is it running? (falaj up)") from error


class _Chunks(Iterator[bytes]):
    """The bytes of an answer. Not a generator: closing one that was never begun would leave its connection taken."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parts = response.iter_raw()

    def __next__(self) -> bytes:
        try:
            return next(self._parts)
        except httpx.TransportError as error:
            raise errors.Unavailable(f"The download broke off: {error}") from error

    def close(self) -> None:
        self._response.close()


def _download(response: httpx.Response) -> Download:
    name = response.headers.get("content-disposition", "").rpartition('filename="')[2].rstrip('"')
    length = response.headers.get("content-length")
    return Download(
        chunks=_Chunks(response),
        size=None if length is None else int(length),
        name=name,
        media_type=response.headers.get("content-type", ""),
    )


def _error_of(response: httpx.Response) -> FalajError:
    try:
        document = response.json()
        detail, rule = str(document["detail"]), str(document.get("rule", ""))
    except (ValueError, KeyError, TypeError):
        detail, rule = f"The server answered {response.status_code}.", ""
    if response.status_code >= 500 and (known_as := response.headers.get("x-request-id")):
        detail = f"{detail} (request {known_as})"  # whoever looks after the server finds it in the log by that
    kind = kind_of(response.status_code)
    if kind is Forbidden:
        return Forbidden(detail, rule=rule)
    if issubclass(kind, TemporaryError):
        return kind(detail, delay=_delay(response.headers.get("retry-after", "")))
    return kind(detail)


def _delay(text: str) -> float:
    """Seconds; a proxy between may also write a date, or nothing of use."""
    return float(text) if text.isascii() and text.isdigit() else 1.0


def _query(fields: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(field).lower() if isinstance(field, bool) else str(field)
        for name, field in fields.items()
        if field is not None
    }
