"""Blobs as a caller sees them, on both databases."""

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import Table, func, select

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, Corrupt, Forbidden, Invalid, NotFound, PermanentError
from falaj.keys.errors import KeyDestroyed
from falaj.storage import operations as declared
from falaj.storage import store
from falaj.storage.errors import StorageNotConfigured, UploadExpired, ZoneNotAllowed
from falaj.storage.retrying import Retrying
from falaj.storage.service import Owner
from tests.storage.platform import Caller, Platform

MIB = 1 << 20


def count(platform: Platform, table: Table) -> int:
    return int(platform.database.read(lambda work: work.execute(select(func.count()).select_from(table)).scalar_one()))


def test_what_was_put_is_shown_and_read(platform: Platform) -> None:
    content, amal = os.urandom(MIB + 17), platform.caller()
    blob = amal.put(content, name="Readings of March.csv")
    assert (blob.size, blob.zone, blob.name) == (len(content), "home", "Readings of March.csv")
    assert blob.digest == hashlib.sha256(content).hexdigest()
    assert blob.created_by == amal.identity.principal
    assert amal.show(blob.id) == blob
    assert amal.get(blob.id) == content
    assert amal.get(blob.id, MIB - 3, 10) == content[MIB - 3 : MIB + 7]
    assert amal.get(blob.id, 5) == content[5:]
    assert amal.get(blob.id, len(content)) == b""
    with pytest.raises(Invalid):
        amal.get(blob.id, len(content) + 1)


def test_an_empty_blob_is_a_blob(platform: Platform) -> None:
    blob = platform.caller().put(b"")
    assert blob.size == 0
    assert platform.caller().get(blob.id) == b""


def test_nothing_on_the_disk_or_in_the_database_shows_content_or_key(platform: Platform) -> None:
    platform.caller().put(b"the secret formula" * 100)
    for file in platform.folder.rglob("*"):
        if file.is_file():
            assert b"secret formula" not in file.read_bytes(), file


def test_the_same_content_is_stored_once_per_project_and_zone(platform: Platform) -> None:
    amal, badr, other = platform.caller(), platform.caller(person="badr"), platform.caller("beta")
    first, again = amal.put(b"same" * 100, name="one"), badr.put(b"same" * 100, name="two")
    assert first.id == again.id
    assert again.name == "one"  # whoever finds it by its first name must go on finding it
    elsewhere, foreign = amal.put(b"same" * 100, zone="closed"), other.put(b"same" * 100)
    assert len({first.id, elsewhere.id, foreign.id}) == 3
    platform.collect()
    assert len(platform.objects()) == 3
    assert amal.get(first.id) == other.get(foreign.id) == b"same" * 100


def test_another_projects_blob_does_not_exist(platform: Platform) -> None:
    blob, stranger = platform.caller().put(b"ours"), platform.caller("beta")
    for call in (stranger.show, stranger.get, stranger.delete, stranger.shred):
        with pytest.raises(NotFound, match="has no blob"):
            call(blob.id)
    assert platform.caller().get(blob.id) == b"ours"


def test_bytes_received_for_one_project_cannot_be_kept_by_another(platform: Platform) -> None:
    received = platform.caller().receive(b"ours")
    with pytest.raises(Forbidden):
        platform.caller("beta").finish(received)


def test_bytes_are_not_kept_in_a_zone_that_the_project_gave_up_meanwhile(platform: Platform) -> None:
    caller = platform.caller()
    received = caller.receive(b"slow", zone="closed")
    caller.facts = replace(caller.facts, places=tuple(place for place in caller.facts.places if place.zone != "closed"))
    with pytest.raises(ZoneNotAllowed):
        caller.finish(received)


def test_a_row_moved_to_another_project_or_object_does_not_open(platform: Platform) -> None:
    amal, other = platform.caller(), platform.caller("beta")
    mine, theirs = amal.put(b"mine"), other.put(b"theirs")
    change = store.blobs.update().where(store.blobs.c.id == theirs.id).values(project=amal.facts.id)
    platform.database.write(lambda work: work.execute(change))
    with pytest.raises(PermanentError):
        amal.get(theirs.id)
    assert amal.get(mine.id) == b"mine"


def test_a_changed_or_missing_object_is_corrupt(platform: Platform) -> None:
    amal = platform.caller()
    blob = amal.put(b"x" * 1000)
    file = platform.object_file(blob.id)
    content = file.read_bytes()
    file.write_bytes(content[:500] + b"!" + content[501:])
    with pytest.raises(Corrupt):
        amal.get(blob.id)
    file.unlink()
    with pytest.raises(Corrupt, match="gone"):
        amal.get(blob.id)


def test_a_zone_the_project_has_not_is_refused_before_a_byte_moves(platform: Platform) -> None:
    chunks = iter([b"x"])
    with pytest.raises(ZoneNotAllowed) as refused:
        platform.caller().receive(chunks, "mars")
    assert refused.value.rule
    assert next(chunks) == b"x"


def test_a_zone_whose_storage_is_not_configured_says_what_to_add(platform: Platform) -> None:
    with pytest.raises(StorageNotConfigured, match=r"\[storage\.nowhere\]"):
        platform.caller().put(b"x", zone="far")


def test_a_read_that_leaves_its_zone_is_refused_with_the_rule(platform: Platform) -> None:
    blob = platform.caller().put(b"stays", zone="closed")
    with pytest.raises(Forbidden) as refused:
        platform.caller().get(blob.id)
    assert refused.value.rule == "closed-zone"
    assert platform.caller().show(blob.id).zone == "closed"


def test_an_upload_cut_midway_leaves_nothing(platform: Platform) -> None:
    def cut_off() -> Iterator[bytes]:
        yield os.urandom(3 * MIB)
        raise ConnectionError("the client left")

    with pytest.raises(ConnectionError):
        platform.caller().put(cut_off())
    assert platform.objects() == set()
    assert not [file for file in (platform.folder / "blobs").rglob("*") if file.is_file()]
    assert count(platform, store.blobs) == 0


def test_blobs_are_listed_in_pages(platform: Platform) -> None:
    amal = platform.caller()
    ids = [amal.put(b"%d" % number).id for number in range(5)]
    platform.caller("beta").put(b"not ours")
    listed, cursor = [], ""
    while True:
        request = declared.ListBlobs(project="alpha", limit=2, cursor=cursor)
        page = amal.read(partial(platform.service._list, request=request))
        listed += [blob.id for blob in page.items]
        if not (cursor := page.next):
            break
    assert listed == ids


def test_the_last_reference_takes_the_key_and_then_the_object(platform: Platform) -> None:
    amal, badr = platform.caller(), platform.caller(person="badr")
    blob = amal.put(b"shared")
    badr.put(b"shared")
    assert amal.delete(blob.id) is False
    with pytest.raises(Conflict, match="hold no reference"):
        amal.delete(blob.id)
    assert badr.get(blob.id) == b"shared"
    assert badr.delete(blob.id) is True
    assert count(platform, store.blobs) == count(platform, store.references) == 0
    with pytest.raises(NotFound):
        badr.get(blob.id)
    platform.collect()
    assert platform.objects() == set()


def test_an_explicit_order_shreds_whoever_refers(platform: Platform) -> None:
    amal = platform.caller()
    blob = amal.put(b"poisoned")
    amal.write(lambda context: platform.service.refer(context, blob.id, Owner(kind="run", id="r1")))
    assert amal.shred(blob.id)
    assert count(platform, store.blobs) == count(platform, store.references) == 0
    platform.collect()
    assert platform.objects() == set()
    assert amal.get(amal.put(b"poisoned").id) == b"poisoned"  # the same content may come again


def test_an_owner_releases_all_it_held_and_nothing_else(platform: Platform) -> None:
    amal, run = platform.caller(), Owner(kind="run", id="r1")
    alone = amal.keep(b"alone", run)
    shared = amal.keep(b"shared", run)
    amal.put(b"shared")
    assert amal.write(lambda context: platform.service.release(context, run)) == (alone.id,)
    assert amal.write(lambda context: platform.service.release(context, run)) == ()
    assert amal.get(shared.id) == b"shared"


def test_another_project_cannot_release_for_an_owner_of_the_same_name(platform: Platform) -> None:
    amal, run = platform.caller(), Owner(kind="run", id="r1")
    blob = amal.keep(b"ours", run)
    assert platform.caller("beta").write(lambda context: platform.service.release(context, run)) == ()
    assert amal.write(lambda context: platform.service.held(context, run)) == {blob.id}


def test_what_something_else_keeps_is_not_read_as_if_somebody_had_stored_it(platform: Platform) -> None:
    amal = platform.caller()
    blob = amal.keep(b"somebody's call", Owner(kind="endpoint-log", id="l1"))
    with pytest.raises(NotFound, match="Nobody stored the blob"):
        amal.get(blob.id)
    assert amal.get(amal.put(b"somebody's call").id) == b"somebody's call"


def test_writers_of_the_same_content_at_once_share_one_blob(platform: Platform) -> None:
    people = [platform.caller(person=f"p{number}") for number in range(6)]
    together, blobs, failures = threading.Barrier(6), [], []

    def put(caller: object) -> None:
        try:
            together.wait()
            blobs.append(caller.put(b"same" * 50_000))  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=put, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len({blob.id for blob in blobs}) == 1
    platform.collect()
    assert len(platform.objects()) == 1
    assert people[0].get(blobs[0].id) == b"same" * 50_000


def test_putting_while_the_last_reference_goes_never_loses_content(platform: Platform) -> None:
    """Whatever the order, a put that was acknowledged is readable afterwards."""
    amal, badr = platform.caller(), platform.caller(person="badr")
    for round_number in range(8):
        content = b"contended %d" % round_number
        blob = amal.put(content)
        together = threading.Barrier(2)
        kept: list[str] = []

        def drop(blob_id: str = blob.id, together: threading.Barrier = together) -> None:
            together.wait()
            amal.delete(blob_id)

        def put(content: bytes = content, together: threading.Barrier = together, kept: list[str] = kept) -> None:
            received = badr.receive(content)
            together.wait()
            kept.append(badr.finish(received).id)

        threads = [threading.Thread(target=drop), threading.Thread(target=put)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        platform.collect()
        assert badr.get(kept[0]) == content


def test_an_upload_that_is_finished_too_late_is_refused(platform: Platform) -> None:
    received = platform.caller().receive(b"slow")
    platform.set_clock.move(HOUR + 1)
    with pytest.raises(UploadExpired):
        platform.caller().finish(received)


def test_shredding_a_project_ends_it_and_leaves_the_others(platform: Platform) -> None:
    amal, other = platform.caller(), platform.caller("beta")
    blobs, kept = [amal.put(b"%d" % number) for number in range(3)], other.put(b"kept")
    in_flight = amal.receive(b"in flight")
    wrapped = platform.ring.wrap(f"project-{amal.facts.id}", b"k", b"")
    with pytest.raises(Invalid, match="confirm"):
        amal.shred_project(confirm="alfa")
    assert amal.shred_project() == 3
    with pytest.raises(KeyDestroyed):
        amal.finish(in_flight)
    platform.rotate()
    platform.collect()
    with pytest.raises(KeyDestroyed):
        platform.ring.unwrap(f"project-{amal.facts.id}", wrapped, b"")
    with pytest.raises(KeyDestroyed):
        amal.put(b"more")
    with pytest.raises(NotFound):
        amal.get(blobs[0].id)
    with pytest.raises(Conflict):
        amal.rotate_key()
    assert other.get(kept.id) == b"kept"
    platform.set_clock.move(30 * 24 * HOUR)
    platform.collect()
    assert len(platform.objects()) == 1


def test_a_shredded_project_that_stored_nothing_cannot_begin(platform: Platform) -> None:
    platform.caller().shred_project()
    platform.rotate()
    with pytest.raises(KeyDestroyed):
        platform.caller().put(b"x")


def test_what_comes_sealed_is_stored_and_read_as_it_is_and_its_key_with_it(platform: Platform) -> None:
    amal, object_id, key, content = platform.caller(), os.urandom(16).hex(), os.urandom(32), os.urandom(MIB + 3)
    received = platform.service.receive_sealed(amal.facts, "", object_id, key, iter([content[:5], content[5:]]))
    blob = amal.write(lambda context: platform.service.keep(context, received, Owner(kind="dataset", id="one")))
    assert platform.object_file(blob.id).read_bytes() == content
    assert platform.object_file(blob.id).name == object_id
    assert (blob.size, blob.digest) == (len(content), hashlib.sha256(content).hexdigest())
    reader = amal.read(lambda context: platform.service.open(context, blob.id))
    assert (reader.object, reader.key, b"".join(reader.read())) == (object_id, key, content)
    assert b"".join(reader.read(MIB - 1, 3)) == content[MIB - 1 : MIB + 2]
    assert b"".join(reader.read(len(content))) == b""


def test_what_comes_sealed_is_never_taken_for_something_that_is_there(platform: Platform) -> None:
    amal, content, owner = platform.caller(), os.urandom(100), Owner(kind="dataset", id="one")
    amal.put(content)
    received = platform.service.receive_sealed(amal.facts, "", "ab" * 16, os.urandom(32), iter([content]))
    with pytest.raises(Conflict):
        amal.write(lambda context: platform.service.keep(context, received, owner))


def test_what_comes_sealed_follows_rotation_is_shredded_and_collected(platform: Platform) -> None:
    amal, key = platform.caller(), os.urandom(32)
    received = platform.service.receive_sealed(amal.facts, "", "cd" * 16, key, iter([b"sealed"]))
    owner = Owner(kind="dataset", id="one")
    blob = amal.write(lambda context: platform.service.keep(context, received, owner))
    amal.rotate_key()
    platform.rotate()
    assert amal.read(lambda context: platform.service.open(context, blob.id)).key == key
    assert amal.write(lambda context: platform.service.release(context, owner)) == (blob.id,)
    platform.collect()
    assert platform.objects() == set()


def opened(caller: Caller, blob: str) -> bytes:
    """As rooms read what they keep."""
    return b"".join(caller.read(lambda context: caller.platform.service.open(context, blob)).read())


def test_a_sealed_object_that_was_cut_or_lost_is_corrupt(platform: Platform) -> None:
    amal = platform.caller()
    received = platform.service.receive_sealed(amal.facts, "", "ef" * 16, os.urandom(32), iter([b"sealed" * 100]))
    blob = amal.write(lambda context: platform.service.keep(context, received, Owner(kind="dataset", id="one")))
    file = platform.object_file(blob.id)
    for changed in (file.read_bytes()[:-1], file.read_bytes() + b"!"):
        file.write_bytes(changed)
        with pytest.raises(Corrupt, match="cut or extended"):
            opened(amal, blob.id)
    file.unlink()
    with pytest.raises(Corrupt, match="gone"):
        opened(amal, blob.id)


def test_a_sealed_object_is_had_as_a_file_and_where_storage_has_none_as_a_copy_without_a_name(platform: Platform) -> None:
    amal, content = platform.caller(), os.urandom(MIB + 3)
    received = platform.service.receive_sealed(amal.facts, "", "ab" * 16, os.urandom(32), iter([content]))
    blob = amal.write(lambda context: platform.service.keep(context, received, Owner(kind="dataset", id="one")))
    stored = platform.object_file(blob.id).stat().st_ino
    for is_same in (True, False):
        reader = amal.read(lambda context: platform.service.open(context, blob.id))
        with reader.file() as file:
            assert (os.fstat(file.fileno()).st_ino == stored) == is_same
            assert os.pread(file.fileno(), len(content) + 1, 0) == content
        platform.places["local"] = Retrying(platform.blobs)
    plain = amal.put(b"not sealed by itself")
    with pytest.raises(ValueError, match="sealed"):
        amal.read(lambda context: platform.service.open(context, plain.id)).file()
