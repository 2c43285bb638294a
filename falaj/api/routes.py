"""Routes: one for each declared operation, all the same function over a different declaration."""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from opentelemetry import trace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from falaj.api.decoding import request_of
from falaj.api.metrics import Metrics
from falaj.api.openapi import KEY_PATTERN, in_body, takes_key, url_of
from falaj.api.problems import problem_of
from falaj.base.errors import FalajError, Invalid, Unauthenticated, UnsupportedMedia
from falaj.base.operation import Download, Operation
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.operations.messages import adapter
from falaj.wire.bodies import Limits, upload_chunks, whole_body
from falaj.wire.calls import Calls
from falaj.wire.rates import RateLimits
from falaj.wire.uploads import UploadSlots

log = logging.getLogger(__name__)
tracer = trace.get_tracer("falaj")
Endpoint = Callable[[Request], Awaitable[Response]]
Read = Callable[[Request, Limits], Awaitable[Any]]  # what was sent, as an operation's request


class Routes:
    """Makes the routes of an application's operations."""

    def __init__(
        self, dispatcher: Dispatcher, *, limits: Limits, rates: RateLimits, uploads: UploadSlots, metrics: Metrics
    ) -> None:
        self._dispatcher = dispatcher
        self._calls = Calls(dispatcher, limits.threads)
        self._limits = limits
        self._rates = rates
        self._uploads = uploads
        self._metrics = metrics

    def routes(self) -> list[Route]:
        return [Route(url_of(op), self._declared(op), methods=[op.method], name=op.name) for op in self._dispatcher.operations]

    def face(self, path: str, operation: Operation[Any, Any], read: Read) -> Route:
        """Another address of an operation, for callers who have no token of ours and say otherwise what they want."""
        endpoint = self._endpoint(operation, read)
        endpoint.operations = (operation,)  # type: ignore[attr-defined]
        return Route(path, endpoint, methods=[operation.method], name=path)

    def _declared(self, operation: Operation[Any, Any]) -> Endpoint:
        endpoint = self._endpoint(operation)
        endpoint.operation = operation  # type: ignore[attr-defined]
        return endpoint

    def _endpoint(self, operation: Operation[Any, Any], read: Read | None = None) -> Endpoint:
        async def endpoint(http: Request) -> Response:
            started = time.perf_counter()
            response: Response | None = None
            self._metrics.under_way.inc()
            try:
                with tracer.start_as_current_span(operation.name):
                    response = await self._answer(operation, http, read)
                return response
            finally:
                self._metrics.under_way.dec()
                self._metrics.calls.labels(operation.name, str(response.status_code if response else 499)).inc()
                self._metrics.seconds.labels(operation.name).observe(time.perf_counter() - started)

        return endpoint

    async def _answer(self, operation: Operation[Any, Any], http: Request, read: Read | None) -> Response:
        request_id: str = http.scope["state"]["request_id"]
        address = http.client.host if http.client else ""
        try:
            credentials = bearer(http) if read is None else None
            self._rates.admit(credentials, address)
            if b"%" in http.scope["raw_path"]:
                raise Invalid("No name in Falaj needs percent-encoding in a path.")
            request = await (self._read(operation, http) if read is None else read(http, self._limits))
            chunks = upload_chunks(http, self._limits) if operation.takes_bytes else None
            call = Call(
                credentials=credentials,
                request_id=request_id,
                idempotency_key=idempotency_key(http) if takes_key(operation) and read is None else "",
                chunks=chunks,
            )
            with self._uploads.hold(credentials) if operation.takes_bytes else nullcontext():
                return _response(operation, await self._calls(operation, request, call))
        except Unauthenticated as error:
            try:
                self._rates.failed(address)
            except FalajError as limited:
                return problem_of(limited, request_id)
            return problem_of(error, request_id)
        except FalajError as error:
            return problem_of(error, request_id)

    async def _read(self, operation: Operation[Any, Any], http: Request) -> Any:
        body = await self._body(http) if in_body(operation) else None
        return request_of(operation, http.path_params, http.scope["query_string"], body)

    async def _body(self, http: Request) -> bytes:
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await whole_body(http, self._limits)
        if body and kind != "application/json":
            raise UnsupportedMedia("Send the body as application/json.")
        return body


def _response(operation: Operation[Any, Any], result: Any) -> Response:
    if isinstance(result, Download):
        headers = {"content-disposition": f'attachment; filename="{result.name}"'}
        if result.size is not None:
            headers["content-length"] = str(result.size)
        return StreamingResponse(result.chunks, headers=headers, media_type=result.media_type)
    return Response(adapter(operation.result).dump_json(result), media_type="application/json")


def bearer(http: Request) -> str | None:
    """The token of the Authorization header; cookies count for nothing here, so no other site can ride on them."""
    headers = http.headers.getlist("authorization")
    if not headers:
        return None
    kind, _, token = headers[0].partition(" ")
    if len(headers) > 1 or kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send one header: Authorization: Bearer TOKEN.")
    return token.strip()


def idempotency_key(http: Request) -> str:
    """Empty where none was sent. One that was sent and cannot be kept is refused, or a repeat would not be recognised."""
    keys = http.headers.getlist("idempotency-key")
    if not keys:
        return ""
    if len(keys) > 1 or not re.fullmatch(KEY_PATTERN, keys[0]):
        raise Invalid("Send one Idempotency-Key of 1 to 200 printable ASCII characters.")
    return keys[0]
