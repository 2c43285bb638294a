"""What a browser sends: a form, small and whole, or a file, as long as it likes but never standing still."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final
from urllib.parse import parse_qsl

from anyio.from_thread import run as run_on_loop
from starlette.requests import ClientDisconnect, Request

from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value

MOST_FIELDS: Final = 200
Fields = dict[str, list[str]]


@value
class BodyLimits:
    form_bytes: int = 1024 * 1024
    form_seconds: float = 20.0
    upload_bytes: int = 1 << 40
    upload_stall_seconds: float = 30.0
    slowest_upload_bytes_per_second: int = 1024


async def form_fields(http: Request, limits: BodyLimits) -> Fields:
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("The console takes forms, sent as application/x-www-form-urlencoded. Programs use the API under /v1.")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.form_seconds):
            async for chunk in http.stream():
                body += chunk
                if len(body) > limits.form_bytes:
                    raise TooLarge(f"The form is larger than {limits.form_bytes} bytes.")
    except TimeoutError:
        raise Invalid(f"The form did not arrive within {limits.form_seconds:g} seconds.") from None
    except ClientDisconnect:
        raise Invalid("The browser went away before its form was whole.") from None
    return fields_of(bytes(body))


def fields_of(encoded: bytes) -> Fields:
    """The fields of a form or a query; a name may come more than once."""
    try:
        pairs = parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except (UnicodeError, ValueError):
        raise Invalid("The form is not well-formed: name=value pairs in UTF-8, percent-encoded.") from None
    fields: Fields = {}
    for name, text in pairs:
        fields.setdefault(name, []).append(text.replace("\r\n", "\n"))
    return fields


def upload_chunks(http: Request, limits: BodyLimits) -> Iterator[bytes]:
    """For the worker thread: the body as it comes; one that stalls, crawls or breaks off ends with an error."""
    stream = http.stream()
    total, started = 0, time.monotonic()
    while True:
        try:
            chunk: bytes | None = run_on_loop(_next_chunk, stream, limits.upload_stall_seconds)
        except TimeoutError:
            raise Invalid(f"The upload stood still for {limits.upload_stall_seconds:g} seconds.") from None
        except ClientDisconnect:
            raise Invalid("The browser went away before its upload was whole.") from None
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
