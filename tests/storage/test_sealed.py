"""Sealing: nothing but what was sealed is ever read, whatever is done to the stored bytes."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from falaj.base.errors import Corrupt
from falaj.storage.blobs import Stored
from falaj.storage.chunks import CHUNK, Hashing, cut
from falaj.storage.folder import FolderBlobs
from falaj.storage.sealed import HEADER, SEALED_CHUNK, Sealed, opened_size, sealed_size, unsealed

ID, OTHER = "a" * 32, "b" * 32
KEY = b"k" * 32
SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 9]


class Kept:
    """A store in memory, whose bytes a test may change."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[int, int]] = []

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        self.objects[object_id] = b"".join(chunks)
        return len(self.objects[object_id])

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        self.asked.append((offset, length))
        found = self.objects[object_id][offset : offset + length]
        yield from (found[at : at + 100_000] for at in range(0, len(found), 100_000))

    def size(self, object_id: str) -> int:
        return len(self.objects[object_id])

    def delete(self, object_id: str) -> None:
        self.objects.pop(object_id, None)

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        return ()

    def probe(self) -> None: ...


def sealed(content: bytes, object_id: str = ID, key: bytes = KEY) -> tuple[Kept, bytes]:
    store = Kept()
    Sealed(store, lambda _: key).put(object_id, iter([content]))
    return store, store.objects[object_id]


def read(store: Kept, size: int, *, key: bytes = KEY, object_id: str = ID) -> bytes:
    """As the platform reads: it knows the size from the database."""
    return b"".join(unsealed(store, object_id, key, size=size, offset=0, length=size))


def refuse(store: Kept, changed: bytes, size: int) -> None:
    """Both readers notice: the one that knows the size, and the one that asks the store for it."""
    store.objects[ID] = changed
    with pytest.raises(Corrupt):
        read(store, size)
    with pytest.raises(Corrupt):
        list(Sealed(store, lambda _: KEY).read(ID, 0, size + 2 * CHUNK))


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_told_from_each_other_exactly(size: int) -> None:
    _, stored = sealed(bytes(size))
    assert len(stored) == sealed_size(size)
    assert opened_size(len(stored)) == size


def test_nothing_of_the_content_is_visible() -> None:
    _, stored = sealed(b"a secret that must not show" * 50_000)
    assert b"secret" not in stored
    assert stored.startswith(HEADER)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.data_too_large])
@given(size=some.sampled_from(SIZES), where=some.floats(0, 1, exclude_max=True), bit=some.integers(0, 7))
def test_a_flipped_bit_is_refused(size: int, where: float, bit: int) -> None:
    store, stored = sealed(bytes(size))
    changed = bytearray(stored)
    changed[int(where * len(changed))] ^= 1 << bit
    store.objects[ID] = bytes(changed)
    with pytest.raises(Corrupt):
        read(store, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_cut_object_is_refused(size: int) -> None:
    store, stored = sealed(os.urandom(size))
    for length in {0, 1, len(HEADER), len(HEADER) + 1, len(stored) - 17, len(stored) - 16, len(stored) - 1}:
        refuse(store, stored[: max(length, 0)], size)


def test_an_object_cut_after_a_whole_chunk_is_refused() -> None:
    store, stored = sealed(os.urandom(3 * CHUNK))
    for chunks in (0, 1, 2):
        refuse(store, stored[: len(HEADER) + chunks * SEALED_CHUNK], 3 * CHUNK)
        # and also by one who was made to believe the smaller size
        with pytest.raises(Corrupt):
            read(store, chunks * CHUNK)


@pytest.mark.parametrize("size", SIZES)
def test_an_extended_object_is_refused(size: int) -> None:
    store, stored = sealed(os.urandom(size))
    for extension in (b"\0", bytes(16), bytes(SEALED_CHUNK), stored[len(HEADER) :]):
        refuse(store, stored + extension, size)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (0, 0, 2), (0, 1, 1), (1, 1, 1), (2, 1, 0)])
def test_reordered_or_repeated_chunks_are_refused(order: tuple[int, ...]) -> None:
    store, stored = sealed(os.urandom(3 * CHUNK))
    chunks = [stored[len(HEADER) + at * SEALED_CHUNK :][:SEALED_CHUNK] for at in range(3)]
    refuse(store, HEADER + b"".join(chunks[at] for at in order), 3 * CHUNK)


def test_a_swapped_object_is_refused() -> None:
    """Also where both were sealed under one key, and whichever id is asked for."""
    store, stored = sealed(os.urandom(CHUNK + 5))
    other, other_stored = sealed(os.urandom(CHUNK + 5), OTHER)
    refuse(store, other_stored, CHUNK + 5)
    other.objects[OTHER] = stored
    with pytest.raises(Corrupt):
        read(other, CHUNK + 5, object_id=OTHER)


def test_a_chunk_of_another_object_is_refused() -> None:
    store, stored = sealed(os.urandom(2 * CHUNK))
    _, other = sealed(os.urandom(2 * CHUNK), OTHER)
    refuse(store, stored[: len(HEADER) + SEALED_CHUNK] + other[len(HEADER) + SEALED_CHUNK :], 2 * CHUNK)


def test_an_older_object_put_back_under_its_id_is_refused() -> None:
    """Each object has a fresh key: what once lay under this id does not open with today's."""
    _, old = sealed(os.urandom(100), key=b"o" * 32)
    store, _ = sealed(os.urandom(100))
    refuse(store, old, 100)


@settings(max_examples=60, deadline=None)
@given(offset=some.integers(0, 3 * CHUNK), length=some.integers(0, 3 * CHUNK))
def test_a_part_read_alone_is_the_part_and_asks_for_its_chunks_only(offset: int, length: int) -> None:
    content = PATTERN[: 2 * CHUNK + 1234]
    part = b"".join(unsealed(STORE, ID, KEY, size=len(content), offset=offset, length=length))
    assert part == content[offset : offset + length]
    if part:
        _, asked = STORE.asked[-1]
        assert asked <= (len(part) // CHUNK + 2) * SEALED_CHUNK + len(HEADER) + 1


PATTERN = os.urandom(3 * CHUNK)
STORE, _ = sealed(PATTERN[: 2 * CHUNK + 1234])


def test_changes_elsewhere_do_not_stop_a_part_from_being_read() -> None:
    store, stored = sealed(PATTERN)
    store.objects[ID] = stored[:-1] + bytes([stored[-1] ^ 1])
    assert b"".join(unsealed(store, ID, KEY, size=len(PATTERN), offset=5, length=10)) == PATTERN[5:15]


@settings(max_examples=60, deadline=None)
@given(pieces=some.lists(some.binary(max_size=50)), size=some.integers(1, 40))
def test_cutting_changes_no_byte(pieces: list[bytes], size: int) -> None:
    chunks = [bytes(chunk) for chunk in cut(iter(pieces), size)]
    assert b"".join(chunks) == b"".join(pieces)
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert all(0 < len(chunk) <= size for chunk in chunks)


@pytest.mark.parametrize("size", SIZES)
def test_the_digest_is_that_of_the_content(size: int) -> None:
    content = os.urandom(size)
    hashing = Hashing(cut(iter([content]), CHUNK))
    assert b"".join(bytes(chunk) for chunk in hashing) == content
    assert hashing.digest == hashlib.sha256(content).hexdigest()


def test_small_content_is_hashed_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    assert len(list(Hashing(cut(iter([b"x" * 1000]), CHUNK)))) == 1


@pytest.mark.parametrize("how", ["close", "fail"])
def test_no_thread_is_left_behind_when_an_upload_ends_early(how: str, tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield bytes(3 * CHUNK)
        if how == "fail":
            raise ConnectionError("the client left")
        yield bytes(3 * CHUNK)

    act: Callable[[], object]
    if how == "fail":

        def act() -> object:
            with pytest.raises(ConnectionError):
                Sealed(FolderBlobs(tmp_path), lambda _: KEY).put(ID, Hashing(cut(endless(), CHUNK)))
            return None
    else:

        def act() -> object:
            iterator = iter(Hashing(cut(endless(), CHUNK)))
            next(iterator)
            return iterator.close()  # type: ignore[attr-defined]

    act()
    assert not [thread for thread in threading.enumerate() if thread.name == "hashing"]
