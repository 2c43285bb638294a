"""The online store on a server that speaks Redis's protocol, for fleets: every host reads the same rows.

A view is a hash of its rows by entity, and one with its tally beside it. Rows are written and removed by scripts, which the
server runs whole and alone, so that no moment can be overtaken between looking and writing.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Misconfigured, OutOfSpace
from falaj.datasets.online.errors import OnlineRefused, OnlineUnavailable
from falaj.datasets.online.stores import (
    MOMENT_BYTES,
    MOST_ROWS,
    RANK_BYTES,
    VIEW_BYTES,
    Freshness,
    Stored,
    check_places,
    check_rows,
    pack_moment,
    unpack_moment,
)

MOST_CONNECTIONS: Final = 64
# Lua's own comparison of texts goes by the server's language, and its numbers are too small for moments.
_BELOW: Final = """
local function below(one, other)
    for at = 1, #other, 4 do
        local mine, theirs = struct.unpack('>I4', one, at), struct.unpack('>I4', other, at)
        if mine ~= theirs then return mine < theirs end
    end
    return false
end
"""
_WRITE: Final = (
    _BELOW
    + f"""
local rank, moment, none = {RANK_BYTES}, {MOMENT_BYTES}, string.rep('\\0', {MOMENT_BYTES})
local earliest = redis.call('HGET', KEYS[2], 'earliest') or none
local before = redis.call('HGET', KEYS[2], 'newest') or none
local newest, written = before, 0
for at = 1, #ARGV, 2 do
    local of, row = string.sub(ARGV[at + 1], 1, moment), ARGV[at + 1]
    local old = redis.call('HGET', KEYS[1], ARGV[at])
    if not below(of, earliest) and (not old or below(old, string.sub(row, 1, rank))) then
        redis.call('HSET', KEYS[1], ARGV[at], row)
        written = written + 1
        if below(newest, of) then newest = of end
    end
end
if newest ~= before then redis.call('HSET', KEYS[2], 'newest', newest) end
return written
"""
)
_COMPLETE: Final = (
    _BELOW
    + """
local complete = redis.call('HGET', KEYS[1], 'complete')
if not complete or below(complete, ARGV[1]) then redis.call('HSET', KEYS[1], 'complete', ARGV[1]) end
"""
)
# A full server takes what frees memory, and in the same script anything behind it: hence the removal of nothing.
_DROP: Final = (
    _BELOW
    + f"""
redis.call('HDEL', KEYS[2], '')
local earliest = redis.call('HGET', KEYS[2], 'earliest')
if not earliest or below(earliest, ARGV[2]) then redis.call('HSET', KEYS[2], 'earliest', ARGV[2]) end
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', {MOST_ROWS // 10})
local removed = 0
for at = 1, #page[2], 2 do
    if below(page[2][at + 1], ARGV[2]) then removed = removed + redis.call('HDEL', KEYS[1], page[2][at]) end
end
return {{page[1], removed}}
"""
)


class RedisStore:
    """`OnlineStore` on a Redis, Valkey or what speaks like them: `redis://`, `rediss://` (TLS) or `unix://`."""

    def __init__(self, url: str, *, timeout: float = 2.0) -> None:
        self._redis = redis = _redis()
        self._shown = url.rpartition("@")[2].partition("?")[0]  # without what it is opened with
        # Everything may be repeated; a connection that the server closed meanwhile is no reason to fail.
        once_more = redis.retry.Retry(redis.backoff.NoBackoff(), 1, supported_errors=(redis.exceptions.ConnectionError,))
        try:
            pool = redis.BlockingConnectionPool.from_url(
                url,
                max_connections=MOST_CONNECTIONS,
                timeout=timeout,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=once_more,
            )
        except ValueError:  # which may say what is secret
            raise Misconfigured(
                "[features] online in falaj.toml is no address of a Redis: write it like redis://user:password@host:6379/0, "
                "rediss://... for TLS or unix:///run/redis.sock, with %40 and the like for signs of the password."
            ) from None
        self._client = client = redis.Redis(connection_pool=pool)
        self._write, self._complete, self._drop = (client.register_script(script) for script in (_WRITE, _COMPLETE, _DROP))

    def write(self, view: bytes, rows: Sequence[Stored]) -> int:
        check_rows(view, rows)
        arguments = [part for place, row in rows for part in (place[VIEW_BYTES:], row)]
        return int(self._asked(lambda: self._write(keys=[_rows(view), _tally(view)], args=arguments)))

    def complete(self, view: bytes, of: Moment) -> None:
        self._asked(lambda: self._complete(keys=[_tally(view)], args=[pack_moment(of)]))

    def read(self, places: Sequence[bytes]) -> list[bytes | None]:
        check_places(places)
        by_view: dict[bytes, list[int]] = {}
        for index, place in enumerate(places):
            by_view.setdefault(place[:VIEW_BYTES], []).append(index)
        found: list[bytes | None] = [None] * len(places)
        for indexes, rows in zip(by_view.values(), self._rows_of(places, by_view), strict=True):
            for index, row in zip(indexes, rows, strict=True):
                found[index] = row
        return found

    def _rows_of(self, places: Sequence[bytes], by_view: Mapping[bytes, Sequence[int]]) -> Sequence[Sequence[bytes | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for view, indexes in by_view.items():
            pipeline.hmget(_rows(view), [places[index][VIEW_BYTES:] for index in indexes])
        found: Sequence[Sequence[bytes | None]] = self._asked(pipeline.execute)
        return found

    def drop(self, view: bytes, *, before: Moment | None = None) -> int:
        if before is None:
            return self._drop_all(view)
        earliest = pack_moment(before)
        removed, cursor = 0, b"0"
        while True:
            cursor, gone = self._asked(lambda at=cursor: self._drop(keys=[_rows(view), _tally(view)], args=[at, earliest]))
            removed += gone
            if cursor == b"0":
                return int(removed)

    def _drop_all(self, view: bytes) -> int:
        pipeline = self._client.pipeline(transaction=False)  # a full server takes no transactions
        pipeline.hlen(_rows(view))
        pipeline.unlink(_rows(view), _tally(view))
        return int(self._asked(pipeline.execute)[0])

    def rows(self, view: bytes) -> Iterator[Stored]:
        cursor = 0
        while True:
            cursor, some = self._asked(partial(self._client.hscan, _rows(view), cursor, count=MOST_ROWS // 10))
            for entity, row in some.items():
                yield Stored(view + entity, row)
            if not cursor:
                return

    def freshness(self, view: bytes) -> Freshness:
        pipeline = self._client.pipeline(transaction=False)  # a full server takes no transactions
        pipeline.hlen(_rows(view))
        pipeline.hmget(_tally(view), "newest", "complete")
        rows, (newest, complete) = self._asked(pipeline.execute)
        return Freshness(rows=rows, newest=unpack_moment(newest or b""), complete=unpack_moment(complete or b""))

    def probe(self) -> None:
        memory = self._asked(lambda: self._client.info("memory"))
        if memory.get("maxmemory") and str(memory.get("maxmemory_policy", "")).startswith("allkeys"):
            raise OnlineRefused(
                f"The Redis at {self._shown} would throw rows away when its memory is full (maxmemory-policy "
                f"{memory['maxmemory_policy']}): set it to noeviction."
            )

    def close(self) -> None:
        self._client.close()
        self._client.connection_pool.disconnect()

    def _asked(self, ask: Any) -> Any:
        errors = self._redis.exceptions
        try:
            return ask()
        except (errors.AuthenticationError, errors.NoPermissionError) as error:
            raise OnlineRefused(
                f"The Redis at {self._shown} refuses the platform's user or password; look at [features] in falaj.toml."
            ) from error
        except errors.OutOfMemoryError as error:
            raise OutOfSpace(f"The Redis at {self._shown} is full. Reading goes on.", delay=5) from error
        except errors.RedisError as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> Exception:
        said = str(error)
        if said.startswith("OOM") or "OOM command not allowed" in said:
            return OutOfSpace(f"The Redis at {self._shown} is full. Reading goes on.", delay=5)
        if said.startswith("MISCONF"):
            return OutOfSpace(f"The Redis at {self._shown} cannot write to its disk. Reading goes on.", delay=5)
        return OnlineUnavailable(f"The Redis at {self._shown} does not answer: {said[:200]}", delay=2)


def _rows(view: bytes) -> bytes:
    return b"falaj:{" + view + b"}:rows"


def _tally(view: bytes) -> bytes:
    return b"falaj:{" + view + b"}:tally"


def _redis() -> Any:
    """The vendor's library, loaded when a store needs it: it is an extra."""
    try:
        import redis
        import redis.backoff
        import redis.retry
    except ImportError:
        raise Misconfigured("An online store on a Redis needs an extra: pip install falaj[redis]") from None
    return redis
