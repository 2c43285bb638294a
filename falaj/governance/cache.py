"""Bounded memories of answers, and those that hold for one generation of what they were drawn from."""

import threading
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
G = TypeVar("G", bound=tuple[Any, ...])


class Bounded(Generic[K, V]):
    """Forgets the oldest entry when full. Thread-safe; reading takes no lock."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: dict[K, V] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, entry: V) -> V:
        with self._lock:
            while len(self._entries) >= self._size:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = entry
        return entry

    def __len__(self) -> int:
        return len(self._entries)


class Current(Bounded[G, V]):
    """Keys begin with a generation. The first entry of a newer one forgets all older ones: nobody will ask for them again."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._newest = 0

    def put(self, key: G, entry: V) -> V:
        if key[0] > self._newest:
            with self._lock:
                self._entries, self._newest = {}, key[0]
        return super().put(key, entry)
