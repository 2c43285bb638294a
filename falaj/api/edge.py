"""What stands before every route, pages included: request id, Host and Origin checks, security headers, the last catch."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from falaj.api.problems import problem
from falaj.base.clock import Clock
from falaj.base.ids import new_id

log = logging.getLogger(__name__)
Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class Edge:
    """Wraps the whole application. `hosts` are the names this server answers to; any other Host header is refused."""

    def __init__(self, app: App, *, hosts: Collection[str], clock: Clock, tls: bool) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._clock = clock
        headers = HEADERS | ({"strict-transport-security": "max-age=31536000"} if tls else {})
        self._headers = [(name.encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id(self._clock.now())
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def guarded_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = message.get("headers", [])
                names = {name for name, _ in given}
                lacking = [header for header in self._headers if header[0] not in names]
                message["headers"] = [*given, (b"x-request-id", request_id.encode()), *lacking]
            await send(message)

        try:
            if refusal := self._refusal(scope["headers"], request_id):
                await refusal(scope, receive, guarded_send)
            else:
                await self._app(scope, receive, guarded_send)
        except Exception:
            log.exception("request %s failed", request_id)
            if started:
                raise
            answer = problem(
                500, "Something went wrong on our side; the log has it under this request id.", request_id=request_id
            )
            await answer(scope, receive, guarded_send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]], request_id: str) -> Response | None:
        hosts = [text for name, text in headers if name == b"host"]
        if len(hosts) != 1 or _host_name(hosts[0].decode("latin-1")) not in self._hosts:
            return problem(
                400, "This server does not answer to that Host; add it to [server] hosts in falaj.toml.", request_id=request_id
            )
        origins = (text.decode("latin-1") for name, text in headers if name == b"origin")
        if any(_origin_host(origin) not in self._hosts for origin in origins):
            return problem(403, "Requests from other sites are refused.", request_id=request_id, rule="edge.origin")
        return None


def _origin_host(origin: str) -> str:
    return _host_name(origin.partition("//")[2])


@lru_cache(maxsize=64)
def _host_name(authority: str) -> str:
    """The name in `name:port`; empty, which no server answers to, when it is not of that form."""
    try:
        parts = urlsplit(f"//{authority}")
        parts.port  # noqa: B018  (raises when it is not a number)
    except ValueError:
        return ""
    plain = not (parts.path or parts.query or parts.fragment or parts.username)
    return (parts.hostname or "").lower() if plain else ""
