"""Which online store a plane reads: one file for each backend, named here and in `app`."""

from collections.abc import Callable
from pathlib import Path

from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.online.stores import OnlineStore


def opening_of(folder: str, redis: str) -> Callable[[], OnlineStore] | None:
    """What opens it, or None where this host has no way to one."""
    if redis:
        return lambda: RedisStore(redis)
    return (lambda: LmdbStore(Path(folder))) if folder else None
