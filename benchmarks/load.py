"""A small closed-loop HTTP client: a fixed number of connections, each sending its next request when the last was answered."""

import asyncio
import time
from collections.abc import Callable, Generator
from urllib.parse import urlsplit

# Yields requests and is sent the body of each answer; one round of it is what is counted.
Talk = Generator[bytes, bytes, None]


async def _connection(host: str, port: int, deadline: float, talk: Callable[[], Talk]) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    rounds = 0
    try:
        while time.perf_counter() < deadline:
            await _round(reader, writer, talk())
            rounds += 1
    finally:
        writer.close()
    return rounds


async def _round(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, talk: Talk) -> None:
    request = next(talk)
    while True:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        body = await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {head[:200]!r} {body[:300]!r}")
        try:
            request = talk.send(body)
        except StopIteration:
            return


async def _load(url: str, connections: int, seconds: float, talk: Callable[[], Talk]) -> float:
    parts = urlsplit(url)
    started = time.perf_counter()
    jobs = (_connection(str(parts.hostname), parts.port or 80, started + seconds, talk) for _ in range(connections))
    rounds = sum(await asyncio.gather(*jobs))
    return rounds / (time.perf_counter() - started)


def rounds_per_second(url: str, *, connections: int, seconds: float, talk: Callable[[], Talk]) -> float:
    """Rounds of talk a second; any answer but 200 ends the benchmark."""
    return asyncio.run(_load(url, connections, seconds, talk))


def requests_per_second(url: str, *, connections: int, seconds: float, next_request: Callable[[], bytes]) -> float:
    def talk() -> Talk:
        yield next_request()

    return rounds_per_second(url, connections=connections, seconds=seconds, talk=talk)


async def _timed(url: str, connections: int, calls: int, seconds: float, next_request: Callable[[], bytes]) -> list[float]:
    parts, took = urlsplit(url), list[float]()
    deadline = time.perf_counter() + seconds

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(str(parts.hostname), parts.port or 80)
        try:
            while len(took) < calls and (began := time.perf_counter()) < deadline:
                await _round(reader, writer, _once(next_request()))
                took.append(time.perf_counter() - began)
        finally:
            writer.close()

    await asyncio.gather(*(connection() for _ in range(connections)))
    return took


def _once(request: bytes) -> Talk:
    yield request


def latencies(url: str, *, connections: int, calls: int, seconds: float, next_request: Callable[[], bytes]) -> list[float]:
    """Seconds that each call took, until so many were answered or so much time has passed; any answer but 200 ends it."""
    return asyncio.run(_timed(url, connections, calls, seconds, next_request))


def http_request(method: str, url: str, path: str, *, token: str = "", body: bytes = b"") -> bytes:
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n{authorization}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
