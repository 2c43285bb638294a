"""The protocol of a raw object store. It sees ciphertext and random ids, nothing else."""

import re
from collections.abc import Iterator
from typing import Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.values import ID_PATTERN, value

OBJECT_ID = re.compile(ID_PATTERN)


@value
class Stored:
    id: str
    modified: Moment


class Blobs(Protocol):
    """Objects under ids of 32 hex digits; any other id raises `Invalid`, whatever it would have named.

    Thread-safe. An object is visible whole or not at all, and durable when `put` returns; a `put` that fails, or whose chunks
    fail, leaves nothing visible. Ids are random and written once: putting one again replaces the object whole, which only a
    repeated attempt does. Chunks may have any size; memory stays bounded whatever the object's. A missing object raises
    `ObjectMissing`, except to `delete`, which is idempotent. A full disk raises `OutOfSpace`, a store that does not answer
    another `TemporaryError`.
    """

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        """Store the chunks as one object; its size."""
        ...

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        """Up to `length` bytes from `offset`: fewer where the object ends before. Raises when the first chunk is asked for."""
        ...

    def size(self, object_id: str) -> int: ...

    def delete(self, object_id: str) -> None: ...

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        """The next objects in the order of their ids; the first ones after the empty string."""
        ...

    def probe(self) -> None:
        """Whether the store could be used now; raises what a use would raise."""
        ...


def checked(object_id: str) -> str:
    if not OBJECT_ID.fullmatch(object_id):
        raise Invalid("An object's id is 32 hex digits.")
    return object_id
