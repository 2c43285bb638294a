"""The one way in for MLflow clients: a plain ASGI callable in front of the other routes, with one look-up per request.

A request is read, called and written in a worker thread: what was sent -> (operation, request) -> result -> document.
"""

import asyncio
import time
from asyncio import wrap_future
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio
from opentelemetry import trace
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import StreamingResponse

from falaj.api.metrics import Metrics
from falaj.api.mlflow.adapters import Adapter, Answer, Document, Endpoint
from falaj.api.mlflow.bodies import Empty, from_body, from_query
from falaj.api.mlflow.downloads import attachment
from falaj.api.mlflow.failures import INVALID, STATUSES, code_of
from falaj.api.mlflow.heads import Head, credentials_of, head_of
from falaj.api.mlflow.projects import Choices, said_project
from falaj.api.mlflow.table import Found, find
from falaj.api.mlflow.unserved import UNSERVED
from falaj.api.mlflow.visits import Visiting
from falaj.base.errors import FalajError, Invalid, TemporaryError, TooMany, Unauthenticated
from falaj.base.operation import Download
from falaj.base.values import value
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.wire.bodies import Limits, Receive, received_body, upload_chunks
from falaj.wire.rates import RateLimits
from falaj.wire.uploads import UploadSlots

tracer = trace.get_tracer("falaj")
Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
PREFIXES = ("/api/2.0/mlflow", "/api/2.0mlflow/", "/api/3.0/mlflow", "/ajax-api/", "/mlflow/")
# What clients ask below the very address they were given: the server's version, and where to send spans, which is nowhere.
EXACTLY = frozenset({"/version", "/v1/traces"})
PROJECT_PREFIX = "/mlflow/"
JSON: Headers = ((b"content-type", b"application/json"),)
TEXT: Headers = ((b"content-type", b"text/plain; charset=utf-8"),)
# A client that sends parts in parallel does not come again when told to, so it is kept waiting for a slot instead.
SLOT_SECONDS = 120.0
SLOT_PAUSE = 0.05
MOST_WAITING = 64


@value
class Reply:
    status: int
    content: bytes
    headers: Headers = JSON


class MlflowFace:
    """`tls` says whether callers reach us by https, possibly through a proxy: the addresses of parts are made with it."""

    def __init__(
        self, dispatcher: Dispatcher, *, limits: Limits, rates: RateLimits, uploads: UploadSlots, metrics: Metrics, tls: bool
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._rates = rates
        self._uploads = uploads
        self._metrics = metrics
        self._scheme = "https" if tls else "http"
        self._choices = Choices()
        self._waiting = 0  # uploads that wait for a slot
        self._threads: anyio.CapacityLimiter | None = None

    @staticmethod
    def serves(path: str) -> bool:
        """Whether a path is this face's to answer."""
        return path.startswith(PREFIXES) or path in EXACTLY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status, name = time.perf_counter(), 499, UNSERVED.name
        self._metrics.under_way.inc()
        try:
            prefix, found = _found(scope)
            name = found.endpoint.name
            with tracer.start_as_current_span(name):
                reply = await self._answer(found, prefix, scope, receive)
            if isinstance(reply, Download):
                status = 200
                await StreamingResponse(reply.chunks, headers=attachment(reply))(scope, receive, send)
            else:
                status = reply.status
                await _send(reply, send)
        finally:
            self._metrics.under_way.dec()
            self._metrics.calls.labels(name, str(status)).inc()
            self._metrics.seconds.labels(name).observe(time.perf_counter() - started)

    async def _answer(self, found: Found, prefix: str, scope: Scope, receive: Receive) -> Reply | Download:
        address = scope["client"][0] if scope.get("client") else ""
        try:
            head = head_of(scope["headers"])
            credentials = credentials_of(head.authorization)
            self._rates.admit(credentials, address)
            visit = Visiting(
                self._dispatcher,
                self._choices,
                Call(credentials=credentials, request_id=scope["state"]["request_id"]),
                said=partial(said_project, prefix, head.workspace),
                path=found.path,
                address=f"{self._scheme}://{head.host}" + (f"{PROJECT_PREFIX}{prefix}" if prefix else ""),
            )
            if not isinstance(found.endpoint, Adapter) and found.endpoint.takes_bytes:
                visit.chunks = upload_chunks(Request(scope, receive), self._limits)
                with ExitStack() as stack:
                    await self._hold_slot(stack, credentials)
                    return await self._in_thread(found.endpoint, visit, scope, b"")
            content = await self._content(found.endpoint, head, scope, receive)
            quick = await self._quickly(found.endpoint, visit, content) if scope["method"] == "POST" else None
            return quick or await self._in_thread(found.endpoint, visit, scope, content)
        except Unauthenticated as error:
            try:
                self._rates.failed(address)
            except FalajError as limited:
                return failure(limited)
            return failure(error)
        except FalajError as error:
            return failure(error, found.endpoint.conflict)

    async def _content(self, endpoint: Endpoint, head: Head, scope: Scope, receive: Receive) -> bytes:
        """The body, where it says anything: what has no fields, or has them in the query, is not waited for."""
        if endpoint.body is Empty or scope["method"] == "GET":
            return b""
        content = await received_body(receive, self._limits)
        if content and head.kind != b"application/json":
            raise Invalid("Send the body as application/json.")
        return content

    async def _quickly(self, endpoint: Endpoint, visit: Visiting, content: bytes) -> Reply | None:
        """Without a thread, for the many small calls of a script that was let in a moment ago; None: take the long way."""
        if not isinstance(endpoint, Adapter) or not visit.may_be_recalled:
            return None
        request = endpoint.quick(content, visit) if endpoint.quick is not None else None
        if request is None:
            sent: Any = from_body(endpoint.body, content)
            if endpoint.more is not None and endpoint.more(sent, visit):
                return None
            request = endpoint.read(sent, visit)
        try:
            future = visit.shortcut(endpoint.operation, request, content)
            return None if future is None else Reply(status=200, content=_json(endpoint.write(await wrap_future(future))))
        except FalajError:
            return None  # it left nothing: the long way refuses it again, with all that belongs to a refusal

    async def _hold_slot(self, stack: ExitStack, credentials: str | None) -> None:
        deadline = time.monotonic() + SLOT_SECONDS
        while True:
            try:
                stack.enter_context(self._uploads.hold(credentials))
            except TooMany:
                if time.monotonic() > deadline or self._waiting >= MOST_WAITING:
                    raise
            else:
                return
            self._waiting += 1
            try:
                await asyncio.sleep(SLOT_PAUSE)
            finally:
                self._waiting -= 1

    async def _in_thread(self, endpoint: Endpoint, visit: Visiting, scope: Scope, content: bytes) -> Reply | Download:
        """Stores are synchronous."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._limits.threads)
        query = scope["query_string"] if scope["method"] == "GET" else None
        return await anyio.to_thread.run_sync(answer, endpoint, visit, query, content, limiter=self._threads)


def answer(endpoint: Endpoint, visit: Visiting, query: bytes | None, content: bytes) -> Reply | Download:
    """Read, call, write. `query` is None where the fields travel in the body."""
    sent: Any = from_body(endpoint.body, content) if query is None else from_query(endpoint.body, query)
    if not isinstance(endpoint, Adapter):
        return _reply(endpoint.perform(visit, sent))
    request = endpoint.read(sent, visit)
    more = endpoint.more(sent, visit) if endpoint.more is not None else ()
    # What goes on record must not depend on which way a call took, so it is digested as it came on this one too.
    result = visit.call(endpoint.operation, request, b"" if more else content)
    for request in more:
        visit.call(endpoint.operation, request)
    return Reply(status=200, content=_json(endpoint.write(result)))


def _reply(made: Document | Answer | Download) -> Reply | Download:
    if isinstance(made, Download):
        return made
    if isinstance(made, dict):
        return Reply(status=200, content=_json(made))
    headers = tuple((name.encode(), text.encode()) for name, text in made.headers)
    if made.text:
        return Reply(status=made.status, content=made.text.encode(), headers=TEXT + headers)
    return Reply(status=made.status, content=_json(made.document or {}), headers=JSON + headers)


def failure(error: FalajError, conflict: str = INVALID) -> Reply:
    code = code_of(error, conflict)
    headers = JSON
    if isinstance(error, TemporaryError):
        headers += ((b"retry-after", str(max(1, round(error.delay))).encode()),)
    if isinstance(error, Unauthenticated):
        headers += ((b"www-authenticate", b'Bearer realm="falaj"'),)
    return Reply(status=STATUSES[code], content=_json({"error_code": code, "message": str(error)}), headers=headers)


def _json(document: Document) -> bytes:
    """Numbers that JSON has not are texts, as protobuf writes and reads them."""
    return to_json(document, inf_nan_mode="strings")


def _found(scope: Scope) -> tuple[str, Found]:
    """The project of the prefix, where there is one, and the endpoint behind it: `/mlflow/fraud/api/2.0/mlflow/runs/get`."""
    path: str = scope["path"]
    raw: bytes = scope.get("raw_path") or path.encode()
    if not path.startswith(PROJECT_PREFIX):
        return "", find(scope["method"], path, raw)
    project, _, rest = path.removeprefix(PROJECT_PREFIX).partition("/")
    parts = raw.split(b"/", 3)
    return project, find(scope["method"], f"/{rest}", b"/" + parts[3] if len(parts) > 3 else b"/")


async def _send(reply: Reply, send: Send) -> None:
    length = (b"content-length", str(len(reply.content)).encode())
    await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, length]})
    await send({"type": "http.response.body", "body": reply.content})
