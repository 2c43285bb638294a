"""Key rotation: no data is rewritten, no read fails, and everything ends up under the new version."""

import threading

import pytest
from sqlalchemy import select

from falaj.base.errors import Corrupt
from falaj.keys.ring import project_key
from falaj.storage import store
from tests.storage.platform import Platform


def versions(platform: Platform) -> list[int]:
    return sorted(platform.database.read(lambda work: work.execute(select(store.blobs.c.key_version)).scalars().all()))


def test_rotation_wraps_every_data_key_anew_and_rewrites_no_data(platform: Platform) -> None:
    amal, other = platform.caller(), platform.caller("beta")
    blobs = {amal.put(b"%d" % number).id: b"%d" % number for number in range(20)}
    other.put(b"not rotated")
    before = {file: file.read_bytes() for file in (platform.folder / "blobs").rglob("*") if file.is_file()}
    asked = amal.rotate_key()
    assert (asked.rotating, asked.pending) == (True, 20)
    step = platform.rotation.step(platform.clock.now())
    assert (step.rotated, step.rewrapped, step.more) == (1, 7, True)
    assert amal.key().pending == 13
    platform.rotate()
    after = amal.key()
    assert (after.version, after.rotating, after.pending) == (2, False, 0)
    assert versions(platform) == [1] + [2] * 20
    assert {file: file.read_bytes() for file in (platform.folder / "blobs").rglob("*") if file.is_file()} == before
    assert all(amal.get(blob) == content for blob, content in blobs.items())
    platform.ring.destroy(project_key(amal.facts.id), 1)  # the old version is not needed any more
    assert all(amal.get(blob) == content for blob, content in blobs.items())


def test_a_project_without_blobs_can_rotate(platform: Platform) -> None:
    assert platform.caller().key().version == 1
    platform.caller().rotate_key()
    platform.rotate()
    assert platform.caller().key().version == 2
    assert platform.caller().get(platform.caller().put(b"x").id) == b"x"
    assert versions(platform) == [2]


def test_bytes_received_before_a_rotation_are_kept_after_it(platform: Platform) -> None:
    amal = platform.caller()
    received = amal.receive(b"in between")
    amal.rotate_key()
    platform.rotate()
    blob = amal.finish(received)
    assert amal.get(blob.id) == b"in between"
    platform.rotate()
    assert versions(platform) == [2]
    assert amal.get(blob.id) == b"in between"


def test_a_data_key_that_does_not_open_stands_in_nobodys_way(platform: Platform) -> None:
    amal = platform.caller()
    blobs = [amal.put(b"%d" % number) for number in range(20)]
    broken = [blob.id for blob in blobs[:8]]
    change = store.blobs.update().where(store.blobs.c.id.in_(broken)).values(wrapped=bytes(60))
    platform.database.write(lambda work: work.execute(change))
    amal.rotate_key()
    platform.rotate()
    assert versions(platform) == [1] * 8 + [2] * 12
    with pytest.raises(Corrupt):
        amal.get(broken[0])


def test_no_read_fails_while_keys_rotate(platform: Platform) -> None:
    amal = platform.caller()
    blobs = {amal.put(b"%d" % number).id: b"%d" % number for number in range(30)}
    failures: list[Exception] = []
    ended, reads = threading.Event(), [0, 0]

    def read(reader: int) -> None:
        while not ended.is_set():
            for blob, content in blobs.items():
                try:
                    assert amal.get(blob) == content
                    reads[reader] += 1
                except Exception as error:  # noqa: BLE001
                    failures.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        amal.rotate_key()
        platform.rotate()
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert min(reads) > 0
    assert versions(platform) == [5] * 30
