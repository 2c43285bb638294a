"""Asynchronous answers sent to where callers want them: to hosts that the endpoint lists alone, signed as "Standard Webhooks"
has it, tried again while nobody takes them.
"""

import asyncio
import logging
import random
import re
import socket
import ssl
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, Protocol

from falaj import __version__
from falaj.base.clock import SECOND, Clock
from falaj.base.errors import Forbidden, PermanentError, Unavailable
from falaj.base.webhooks import Target, signature, target_of
from falaj.serving.plane.addresses import check_listed, may_connect
from falaj.serving.plane.rest.stores import Kept
from falaj.serving.states import Endpoint

log = logging.getLogger(__name__)
DELAYS: Final = (1.0, 5.0, 30.0, 120.0)  # seconds before each further attempt
ATTEMPT_TAKES: Final = 10.0
AT_ONCE: Final = 8  # to one host
MOST_PENDING: Final = 500  # of one endpoint; what is beyond can still be fetched
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?\r\n")
_GONE: Final = 410
_LONGEST_LINE: Final = 16 * 1024


class Endpoints(Protocol):
    """The endpoints as they are now; implemented by the core."""

    def endpoint_named(self, token: str, name: str) -> Endpoint:
        """Raises where the token does not open it."""
        ...

    def endpoint_by_id(self, id: str) -> Endpoint | None: ...


class SignedCallbacks:
    """Implements `Callbacks`. Used on the loop's thread. `jitter` spreads attempts that would otherwise come together."""

    def __init__(
        self,
        endpoints: Endpoints,
        clock: Clock,
        *,
        delays: Sequence[float] = DELAYS,
        trust: ssl.SSLContext | None = None,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),  # nosec B311 - spreads retries
    ) -> None:
        self._endpoints, self._clock, self._delays, self._given, self._jitter = endpoints, clock, delays, trust, jitter
        self._pending: Counter[str] = Counter()
        self._slots: defaultdict[tuple[str, int], asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))

    def permit(self, token: str, endpoint: str, url: str) -> str:
        known = self._endpoints.endpoint_named(token, endpoint)
        check_listed(target_of(url), known.callbacks)
        if not known.callback_secret:
            raise Unavailable("the secret of this endpoint's callbacks has not come yet; try again", delay=5)
        return known.id

    async def send(self, *, url: str, endpoint: str, id: str, kept: Kept) -> None:
        if self._pending[endpoint] >= MOST_PENDING:
            log.warning("callback %s was left out: endpoint %s has %d under way", id, endpoint, MOST_PENDING)
            return
        self._pending[endpoint] += 1
        try:
            await self._deliver(target_of(url), endpoint, id, kept)
        except PermanentError as error:
            log.warning("callback %s of endpoint %s was given up: %s", id, endpoint, error)
        except Exception:
            log.exception("callback %s of endpoint %s failed in a way nobody expected", id, endpoint)
        finally:
            self._pending[endpoint] -= 1
            if not self._pending[endpoint]:
                del self._pending[endpoint]

    async def _deliver(self, target: Target, endpoint: str, id: str, kept: Kept) -> None:
        why = ""
        for delay in (0.0, *self._delays):
            await asyncio.sleep(delay * self._jitter())
            try:
                async with self._slots[target.host, target.port], asyncio.timeout(ATTEMPT_TAKES):
                    status = await self._attempt(target, endpoint, id, kept)
            except (OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                why = f"{type(error).__name__} {error}".strip()
                continue
            if 200 <= status < 300:
                return
            if status == _GONE or 300 <= status < 400:
                raise PermanentError(f"{target.host} answered {status}, which is not asked again")
            why = f"it answered {status}"
        raise PermanentError(f"{target.host} did not take it in {1 + len(self._delays)} attempts: {why}")

    async def _attempt(self, target: Target, endpoint: str, id: str, kept: Kept) -> int:
        """What holds now is what counts: a host may have been struck off, or the secret changed, since the last attempt."""
        known = self._endpoints.endpoint_by_id(endpoint)
        if known is None or not known.callback_secret:
            raise PermanentError("the endpoint has no callbacks any more")
        check_listed(target, known.callbacks)
        timestamp = str(self._clock.now() // SECOND)
        head = (
            f"POST {target.path} HTTP/1.1\r\nhost: {target.authority}\r\nuser-agent: falaj/{__version__}\r\n"
            f"connection: close\r\ncontent-length: {len(kept.body)}\r\n"
            f"webhook-id: {id}\r\nwebhook-timestamp: {timestamp}\r\n"
            f"webhook-signature: {signature(known.callback_secret, id, timestamp, kept.body)}\r\n"
            f"x-falaj-endpoint: {known.name}\r\nx-falaj-status: {kept.status}\r\n"
        ).encode("ascii")
        reader, writer = await self._connect(target)
        try:
            writer.write(b"%bcontent-type: %b\r\n%b\r\n" % (head, kept.kind, kept.lines))
            writer.write(kept.body)
            await writer.drain()
            return await _status(reader)
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """By address, not by name: a name that leads elsewhere the second time it is looked up leads nowhere."""
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        addresses = [str(where[4][0]) for where in found]
        open_ones = [address for address in dict.fromkeys(addresses) if may_connect(target, address)]
        if not open_ones:
            raise Forbidden(f"{target.host} leads to {', '.join(sorted(set(addresses)))}, where callbacks do not go")
        secured = {"ssl": self._trust, "server_hostname": target.host} if target.scheme == "https" else {}
        for number, address in enumerate(open_ones, 1):
            try:
                reader, writer = await asyncio.open_connection(address, target.port, limit=_LONGEST_LINE, **secured)  # type: ignore[arg-type]
            except OSError:
                if number == len(open_ones):
                    raise
                continue
            if not may_connect(target, str(writer.get_extra_info("peername")[0])):
                writer.transport.abort()
                raise Forbidden(f"{target.host} leads to an address where callbacks do not go")
            return reader, writer
        raise AssertionError("unreachable")

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return self._given or ssl.create_default_context()


async def _status(reader: asyncio.StreamReader) -> int:
    """Of the answer; what comes before it, and its body, is of no interest."""
    for _ in range(5):
        line = await reader.readuntil(b"\r\n")
        found = _STATUS.fullmatch(line)
        if found is None:
            raise ConnectionError("what answered does not speak HTTP")
        if not found[1].startswith(b"1"):
            return int(found[1])
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    raise ConnectionError("what answered does not come to the point")
