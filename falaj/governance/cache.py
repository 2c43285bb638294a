"""A bounded memory of answers. Keys carry the generation, so entries grow old by never being asked for again."""

import threading
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


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
