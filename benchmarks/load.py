"""A small closed-loop HTTP client: a fixed number of connections, each sending its next request when the last was answered."""

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit


async def _connection(host: str, port: int, deadline: float, next_request: Callable[[], bytes]) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    answered = 0
    try:
        while time.perf_counter() < deadline:
            writer.write(next_request())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"the server answered {head[:200]!r}")
            length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            answered += 1
    finally:
        writer.close()
    return answered


async def _load(url: str, connections: int, seconds: float, next_request: Callable[[], bytes]) -> float:
    parts = urlsplit(url)
    started = time.perf_counter()
    jobs = (_connection(str(parts.hostname), parts.port or 80, started + seconds, next_request) for _ in range(connections))
    answered = sum(await asyncio.gather(*jobs))
    return answered / (time.perf_counter() - started)


def requests_per_second(url: str, *, connections: int, seconds: float, next_request: Callable[[], bytes]) -> float:
    """Answered requests a second; any answer but 200 ends the benchmark."""
    return asyncio.run(_load(url, connections, seconds, next_request))


def http_request(method: str, url: str, path: str, *, token: str = "", body: bytes = b"") -> bytes:
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n{authorization}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
