"""What every `Blobs` promises, wrappers included. Inherit and provide the fixture `blobs`."""

import itertools
import os
import threading
import time
from collections.abc import Iterator

import pytest

from falaj.base.clock import MINUTE
from falaj.base.errors import Invalid
from falaj.storage.blobs import Blobs, Stored
from falaj.storage.errors import ObjectMissing

MIB = 1 << 20
SIZES = [0, 1, 15, 16, 17, 1000, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5]
NOT_IDS = [
    "",
    "0",
    "g" * 32,
    "A" * 32,
    "a" * 31,
    "a" * 33,
    "../" + "a" * 29,
    "a" * 31 + "/",
    "a" * 32 + "\n",
    "/" + "a" * 31,
    "\0" * 32,
]


class ClientLeft(Exception):
    """Stands for whatever ends an upload in its middle."""


class BlobsConformance:
    @pytest.fixture
    def blobs(self) -> Blobs:
        raise NotImplementedError("provide the store under test")

    @pytest.mark.parametrize("size", SIZES)
    def test_what_was_put_is_read(self, blobs: Blobs, size: int) -> None:
        object_id, content = os.urandom(16).hex(), os.urandom(size)
        assert blobs.put(object_id, iter([content] if content else [])) == size
        assert blobs.size(object_id) == size
        assert b"".join(blobs.read(object_id, 0, size + 10)) == content

    @pytest.mark.parametrize("piece", [1000, 64 << 10, MIB, 3 * MIB])
    def test_chunks_of_any_size_make_the_same_object(self, blobs: Blobs, piece: int) -> None:
        object_id, content = os.urandom(16).hex(), os.urandom(2 * MIB + 77)
        blobs.put(object_id, (content[at : at + piece] for at in range(0, len(content), piece)))
        assert b"".join(blobs.read(object_id, 0, len(content))) == content

    def test_empty_chunks_do_no_harm(self, blobs: Blobs) -> None:
        object_id = os.urandom(16).hex()
        assert blobs.put(object_id, iter([b"", b"a", b"", b"", b"b", b""])) == 2
        assert b"".join(blobs.read(object_id, 0, 9)) == b"ab"

    def test_any_part_can_be_read(self, blobs: Blobs) -> None:
        object_id, content = os.urandom(16).hex(), os.urandom(2 * MIB + 100)
        blobs.put(object_id, iter([content]))
        edges = [0, 1, 16, MIB - 17, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 99, 2 * MIB + 100, 2 * MIB + 101]
        for offset, length in itertools.product(edges, [0, 1, 17, MIB, MIB + 1, 3 * MIB]):
            assert b"".join(blobs.read(object_id, offset, length)) == content[offset : offset + length], (offset, length)

    def test_a_missing_object_is_told(self, blobs: Blobs) -> None:
        with pytest.raises(ObjectMissing):
            blobs.size("a" * 32)
        with pytest.raises(ObjectMissing):
            list(blobs.read("a" * 32, 0, 1))

    def test_deleting_is_idempotent(self, blobs: Blobs) -> None:
        object_id = os.urandom(16).hex()
        blobs.put(object_id, iter([b"x"]))
        for _ in range(3):
            blobs.delete(object_id)
        with pytest.raises(ObjectMissing):
            list(blobs.read(object_id, 0, 1))
        assert blobs.list("", 10) == ()

    @pytest.mark.parametrize("size", [10, 40 * MIB])
    def test_a_put_that_breaks_off_leaves_nothing(self, blobs: Blobs, size: int) -> None:
        object_id = os.urandom(16).hex()

        def broken() -> Iterator[bytes]:
            for _ in range(0, size, MIB):
                yield bytes(min(size, MIB))
            raise ClientLeft

        with pytest.raises(ClientLeft):
            blobs.put(object_id, broken())
        with pytest.raises(ObjectMissing):
            blobs.size(object_id)
        assert blobs.list("", 10) == ()

    def test_an_object_is_not_visible_before_it_is_whole(self, blobs: Blobs) -> None:
        object_id, seen = os.urandom(16).hex(), []

        def watching() -> Iterator[bytes]:
            for _ in range(20):
                yield bytes(MIB)
                seen.append([stored.id for stored in blobs.list("", 10)])

        blobs.put(object_id, watching())
        assert seen == [[]] * 20
        assert [stored.id for stored in blobs.list("", 10)] == [object_id]

    def test_putting_again_replaces_the_object_whole(self, blobs: Blobs) -> None:
        object_id = os.urandom(16).hex()
        blobs.put(object_id, iter([b"first, and longer"]))
        blobs.put(object_id, iter([b"second"]))
        assert b"".join(blobs.read(object_id, 0, 100)) == b"second"

    def test_objects_are_listed_in_order_and_in_pages(self, blobs: Blobs) -> None:
        ids = sorted(os.urandom(16).hex() for _ in range(7))
        for object_id in ids:
            blobs.put(object_id, iter([b"x"]))
        listed: list[Stored] = []
        after = ""
        while page := blobs.list(after, 3):
            assert len(page) <= 3
            listed += page
            after = page[-1].id
        assert [stored.id for stored in listed] == ids
        now = time.time_ns() // 1000
        assert all(abs(now - stored.modified) < 5 * MINUTE for stored in listed)

    @pytest.mark.parametrize("object_id", NOT_IDS)
    def test_an_id_that_is_none_is_refused_everywhere(self, blobs: Blobs, object_id: str) -> None:
        with pytest.raises(Invalid):
            blobs.put(object_id, iter([b"x"]))
        with pytest.raises(Invalid):
            list(blobs.read(object_id, 0, 1))
        with pytest.raises(Invalid):
            blobs.size(object_id)
        with pytest.raises(Invalid):
            blobs.delete(object_id)

    def test_threads_put_and_read_side_by_side(self, blobs: Blobs) -> None:
        contents = {os.urandom(16).hex(): os.urandom(MIB + number) for number in range(6)}
        wrong: list[str] = []

        def use(object_id: str) -> None:
            blobs.put(object_id, iter([contents[object_id]]))
            if b"".join(blobs.read(object_id, 0, 2 * MIB)) != contents[object_id]:
                wrong.append(object_id)

        threads = [threading.Thread(target=use, args=(object_id,)) for object_id in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert [stored.id for stored in blobs.list("", 10)] == sorted(contents)

    def test_a_store_that_works_says_so(self, blobs: Blobs) -> None:
        blobs.probe()
