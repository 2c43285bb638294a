"""Receiving what a client sends, within limits: a small body whole and soon, an upload as long as it keeps coming."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from anyio.from_thread import run as run_on_loop
from starlette.requests import ClientDisconnect, Request

from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@value
class Limits:
    """What one request may ask of the server."""

    body_bytes: int = 1024 * 1024
    body_seconds: float = 20.0
    upload_bytes: int = 1 << 40
    upload_stall_seconds: float = 30.0
    slowest_upload_bytes_per_second: int = 16 * 1024
    threads: int = 64


async def whole_body(http: Request, limits: Limits) -> bytes:
    return await received_body(http.receive, limits)


async def received_body(receive: Receive, limits: Limits) -> bytes:
    """The body as ASGI hands it over, for callers that have no use for a `Request`."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("The client went away before its request was whole.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    raise TooLarge(f"The body is larger than {limits.body_bytes} bytes.")
                more = message.get("more_body", False)
    except TimeoutError:
        raise Invalid(f"The body did not arrive within {limits.body_seconds:g} seconds.") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def upload_chunks(http: Request, limits: Limits) -> Iterator[bytes]:
    """The upload as an iterator for the worker thread; a client that stalls, crawls or leaves ends it with an error."""
    stream = http.stream()
    total, started = 0, time.monotonic()
    while True:
        try:
            chunk: bytes | None = run_on_loop(_next_chunk, stream, limits.upload_stall_seconds)
        except TimeoutError:
            raise Invalid(f"The upload stood still for {limits.upload_stall_seconds:g} seconds.") from None
        except ClientDisconnect:
            raise Invalid("The client went away before its upload was whole.") from None
        if chunk is None:
            return
        total += len(chunk)
        if total > limits.upload_bytes:
            raise TooLarge(f"The upload is larger than {limits.upload_bytes} bytes.")
        if total < (time.monotonic() - started - limits.upload_stall_seconds) * limits.slowest_upload_bytes_per_second:
            raise Invalid("The upload is too slow to hold a connection for it.")
        if chunk:
            yield chunk


async def _next_chunk(stream: AsyncIterator[bytes], seconds: float) -> bytes | None:
    async with asyncio.timeout(seconds):
        return await anext(stream, None)
