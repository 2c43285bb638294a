"""Asynchronous answers in memory."""

from falaj.base.clock import Clock
from falaj.base.errors import NotFound, Unavailable
from falaj.serving.plane.rest.stores import Kept


class MemoryStore:
    """A `Store` for tests that have a single worker and no disk."""

    def __init__(self, clock: Clock, *, entries: int = 10_000, size: int = 256 * 1024 * 1024) -> None:
        self._clock = clock
        self._entries = entries
        self._size = size
        self._held = 0
        self._kept: dict[str, tuple[str, int, Kept | None]] = {}

    async def open(self, id: str, caller: str, expires: int) -> None:
        if len(self._kept) >= self._entries or self._held >= self._size:
            self._forget_expired()
            if len(self._kept) >= self._entries or self._held >= self._size:
                raise Unavailable("too many asynchronous answers wait to be fetched; try again", delay=10)
        self._kept[id] = (caller, expires, None)

    async def finish(self, id: str, caller: str, expires: int, kept: Kept) -> None:
        self._kept[id] = (caller, expires, kept)
        self._held += len(kept.body)

    async def read(self, id: str, caller: str) -> Kept | None:
        found = self._kept.get(id)
        if found is None or found[0] != caller or found[1] <= self._clock.now():
            raise NotFound("there is no such request, or its answer has expired")
        return found[2]

    def _forget_expired(self) -> None:
        now = self._clock.now()
        for id in [id for id, (_, expires, _) in self._kept.items() if expires <= now]:
            kept = self._kept.pop(id)[2]
            self._held -= len(kept.body) if kept is not None else 0
