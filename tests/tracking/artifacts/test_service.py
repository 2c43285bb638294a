"""Artifacts as a caller sees them, on both databases."""

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from falaj.base.errors import Conflict, Corrupt, Forbidden, Invalid, NotFound
from falaj.storage import store as storage_store
from falaj.storage.errors import ZoneNotAllowed
from falaj.storage.service import Owner
from falaj.tracking.artifacts.service import ArtifactFile
from falaj.tracking.operations import artifacts as declared
from falaj.tracking.operations import models
from falaj.tracking.store.runs import ACTIVE, CAME_DELETED, DELETED
from tests.tracking.artifacts.shelf import Shelf

MIB = 1 << 20
NOBODY = "0" * 32


def test_what_was_put_is_read_whole_and_in_part(shelf: Shelf) -> None:
    amal = shelf.caller()
    content = os.urandom(MIB + 17)
    for holder in (amal.new_run(), amal.new_model()):
        artifact = amal.save(holder, "model/weights.bin", content)
        assert (artifact.name, artifact.size) == ("model/weights.bin", len(content))
        assert artifact.digest == hashlib.sha256(content).hexdigest()
        assert artifact.created_by == amal.identity.principal
        assert amal.load(holder, "model/weights.bin") == content
        assert amal.load(holder, "model/weights.bin", MIB - 3, 10) == content[MIB - 3 : MIB + 7]
        assert amal.load(holder, "model/weights.bin", len(content)) == b""
        with pytest.raises(Invalid, match="behind the end"):
            amal.load(holder, "model/weights.bin", len(content) + 1)
    shelf.assert_nothing_leaks()


def test_an_empty_file_is_a_file(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "empty", b"")
    assert amal.load(run, "empty") == b""
    assert amal.entries(run) == [declared.Entry(name="empty", folder=False, size=0, digest=hashlib.sha256().hexdigest())]


def test_a_file_that_is_not_there_is_not_found(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "model/a")
    for name in ("a", "model", "model/A", "model/a/b"):
        with pytest.raises(NotFound, match="has no file"):
            amal.load(run, name)
        if name != "model":
            with pytest.raises(NotFound, match="no file and no folder"):
                amal.remove(run, name)


def test_another_projects_run_or_model_does_not_exist(shelf: Shelf) -> None:
    amal, stranger = shelf.caller(), shelf.caller("beta")
    for holder, unknown in ((amal.new_run(), NOBODY), (amal.new_model(), f"m-{NOBODY}")):
        amal.save(holder, "a", b"ours")
        calls: list[Any] = [
            lambda of: stranger.save(of, "b"),
            lambda of: stranger.load(of, "a"),
            lambda of: stranger.entries(of),
            lambda of: stranger.remove(of),
            lambda of: stranger.begin_upload(of, "b"),
            lambda of: stranger.read(lambda context: shelf.artifacts.files(context, of, "")),
        ]
        for call in calls:
            with pytest.raises(NotFound) as refused:
                call(holder)
            with pytest.raises(NotFound) as absent:
                call(unknown)
            assert str(refused.value).replace(holder, "") == str(absent.value).replace(unknown, "")
        assert amal.load(holder, "a") == b"ours"


def test_bytes_for_a_run_that_does_not_exist_are_not_taken(shelf: Shelf) -> None:
    chunks = iter([b"x"])
    for holder, name in ((NOBODY, "a"), (shelf.caller().new_run(), "../a")):
        with pytest.raises((NotFound, Invalid)):
            shelf.caller().save(holder, name, chunks)
    assert next(chunks) == b"x"
    assert not shelf.objects()


def test_a_run_deleted_while_its_bytes_come_in_gets_none(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    received = amal.begin(declared.PUT_ARTIFACT, iter([b"x"]), holder=run, name="a")
    amal.set_run(run, DELETED)
    with pytest.raises(Invalid, match="restore it"):
        amal.complete(declared.PUT_ARTIFACT, received, holder=run, name="a")
    assert amal.names(run) == []


def test_a_deleted_run_shows_its_files_and_takes_no_more(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "a", b"old")
    amal.set_run(run, DELETED)
    assert amal.load(run, "a") == b"old"
    for refused in (lambda: amal.save(run, "b"), lambda: amal.begin_upload(run, "b")):
        with pytest.raises(Invalid, match="restore it"):
            refused()
    amal.set_run(run, ACTIVE)
    amal.save(run, "b")
    amal.set_run(run, CAME_DELETED)  # it is being taken over from elsewhere, and its files follow it
    amal.save(run, "c")
    assert amal.names(run) == ["a", "b", "c"]


def test_a_deleted_model_hides_its_files(shelf: Shelf) -> None:
    amal = shelf.caller()
    model = amal.new_model()
    amal.save(model, "MLmodel")
    amal.call(models.DELETE_LOGGED_MODEL, model=model)
    for call in (lambda: amal.load(model, "MLmodel"), lambda: amal.entries(model), lambda: amal.save(model, "b")):
        with pytest.raises(NotFound, match="has no logged model"):
            call()


def test_a_file_of_the_same_name_replaces_the_old_one_whose_content_goes(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    first = amal.save(run, "model/a", b"first")
    second = amal.save(run, "model/a", b"second")
    assert first.blob != second.blob
    assert amal.load(run, "model/a") == b"second"
    assert amal.names(run, deep=True) == ["model/a"]
    with pytest.raises(NotFound):
        amal.show(first.blob)
    shelf.assert_nothing_leaks()
    assert len(shelf.objects()) == 1


def test_the_same_content_put_again_under_the_same_name_stays(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    for _ in range(3):
        amal.save(run, "a", b"same")
    assert amal.load(run, "a") == b"same"
    shelf.assert_nothing_leaks()
    assert len(shelf.objects()) == 1


def test_content_that_other_files_share_survives_the_end_of_one(shelf: Shelf) -> None:
    amal = shelf.caller()
    runs = [amal.new_run() for _ in range(3)]
    for run in runs:
        amal.save(run, "a", b"shared")
    assert len({amal.entries(run)[0].digest for run in runs}) == 1
    amal.remove(runs[0], "a")
    amal.save(runs[1], "a", b"other")
    shelf.assert_nothing_leaks()
    assert amal.load(runs[2], "a") == b"shared"


def test_a_snapshot_keeps_its_content_when_the_files_go(shelf: Shelf) -> None:
    """As a registered version does: it refers to the blobs by itself."""
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "model/MLmodel", b"flavors")
    (file,) = amal.read(lambda context: shelf.artifacts.files(context, run, "model"))
    amal.write(lambda context: shelf.service.refer(context, file.blob, Owner(kind="user", id="version")))
    amal.remove(run)
    shelf.settle()
    assert amal.get(file.blob) == b"flavors"


def test_a_file_and_a_folder_cannot_have_the_same_name(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "a/b/c")
    amal.save(run, "a0")
    for name in ("a", "a/b"):
        with pytest.raises(Conflict, match="is a folder"):
            amal.save(run, name)
    for name in ("a/b/c/d", "a/b/c/d/e", "a0/b"):
        with pytest.raises(Conflict, match="is a file"):
            amal.save(run, name)
    amal.save(run, "a/b-c")
    amal.save(run, "a/bc")
    assert amal.names(run, deep=True) == ["a/b-c", "a/b/c", "a/bc", "a0"]
    amal.remove(run, "a")
    amal.save(run, "a")
    assert amal.names(run) == ["a", "a0"]
    shelf.assert_nothing_leaks()


def test_writers_that_make_a_name_both_file_and_folder_at_once_do_not_both_succeed(shelf: Shelf) -> None:
    amal = shelf.caller()
    for _ in range(6):
        run = amal.new_run()
        outcomes = at_once(lambda run=run: amal.save(run, "a"), lambda run=run: amal.save(run, "a/b"))
        assert sum(isinstance(outcome, declared.Artifact) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
        assert len(amal.names(run, deep=True)) == 1
    shelf.assert_nothing_leaks()


def test_two_writers_of_one_name_leave_the_later_one_and_no_loser(shelf: Shelf) -> None:
    amal, badr = shelf.caller(), shelf.caller(person="badr")
    run = amal.new_run()
    for number in range(6):
        contents = [b"amal %d" % number, b"badr %d" % number]
        calls = [
            lambda who=who, content=content: who.save(run, "a", content)
            for who, content in zip((amal, badr), contents, strict=True)
        ]
        outcomes = at_once(*calls)
        assert all(isinstance(outcome, declared.Artifact) for outcome in outcomes)
        assert amal.load(run, "a") in contents
        assert amal.names(run) == ["a"]
        shelf.assert_nothing_leaks()
        assert len(shelf.objects()) == 1


def test_deleting_a_folder_takes_all_below_it_and_nothing_beside_it(shelf: Shelf) -> None:
    amal = shelf.caller()
    run, other = amal.new_run(), amal.new_run()
    names = ["m", "model/a", "model/b/c", "model-2/a", "model.txt", "model0"]
    for name in names:
        amal.save(run, name, name.encode())
        amal.save(other, name, b"other" + name.encode())
    assert amal.remove(run, "model") == 2
    assert amal.names(run, deep=True) == ["m", "model-2/a", "model.txt", "model0"]
    assert amal.remove(run, "model.txt") == 1
    assert amal.remove(run) == 3
    assert amal.remove(run) == 0
    assert amal.names(other, deep=True) == sorted(names)
    shelf.assert_nothing_leaks()
    assert len(shelf.objects()) == len(names)


def test_a_folder_of_many_files_goes_at_once_and_its_content_soon(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    blobs = [amal.save(run, f"many/{number:03}", b"%d" % number).blob for number in range(130)]
    assert amal.remove(run, "many") == 130
    assert amal.names(run) == []
    shelf.assert_nothing_leaks()
    assert not shelf.objects()
    with pytest.raises(NotFound):
        amal.show(blobs[-1])


def test_files_of_a_folder_are_told_with_names_relative_to_it(shelf: Shelf) -> None:
    amal = shelf.caller()
    model = amal.new_model()
    saved = {name: amal.save(model, name, name.encode()) for name in ("a", "m/MLmodel", "m/data/x.bin", "m2")}

    def files(folder: str) -> list[ArtifactFile]:
        found = amal.read(lambda context: shelf.artifacts.files(context, model, folder))
        return [replace(one, token="") for one in found]

    def file(full: str, name: str) -> ArtifactFile:
        return ArtifactFile(name=name, blob=saved[full].blob, size=len(full), digest=saved[full].digest, token="")

    assert files("") == [file(name, name) for name in sorted(saved)]
    assert files("m") == [file("m/MLmodel", "MLmodel"), file("m/data/x.bin", "data/x.bin")]
    assert files("m/data/x.bin") == [file("m/data/x.bin", "x.bin")]
    assert files("nothing") == []
    with pytest.raises(Invalid):
        files("../m")


def test_a_read_that_leaves_its_zone_is_refused(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "a", b"stays", zone="closed")
    with pytest.raises(Forbidden):
        amal.load(run, "a")
    with pytest.raises(ZoneNotAllowed):
        amal.save(run, "b", zone="mars")


def test_a_changed_object_is_corrupt_and_a_shredded_one_is_told(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    artifact = amal.save(run, "a", b"x" * 1000)
    file = shelf.object_file(artifact.blob)
    content = file.read_bytes()
    file.write_bytes(content[:500] + b"!" + content[501:])
    with pytest.raises(Corrupt):
        amal.load(run, "a")
    amal.shred(artifact.blob)
    with pytest.raises(NotFound, match="was shredded"):
        amal.load(run, "a")
    amal.save(run, "a", b"anew")
    assert amal.load(run, "a") == b"anew"
    shelf.assert_nothing_leaks()


def test_an_upload_cut_midway_leaves_nothing(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    amal.save(run, "a", b"before")

    def cut_off() -> Iterator[bytes]:
        yield os.urandom(3 * MIB)
        raise ConnectionError("the client left")

    for name in ("a", "b"):
        with pytest.raises(ConnectionError):
            amal.save(run, name, cut_off())
    assert amal.names(run) == ["a"]
    assert amal.load(run, "a") == b"before"
    assert len(shelf.objects()) == 1


def test_the_leaf_names_content_and_not_more(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    artifact = amal.save(run, "a", b"content")
    request, facts = declared.GetArtifact(project="alpha", holder=run, name="a"), {}

    def get(context: Any) -> None:
        shelf.artifacts.get(context, request)
        facts.update(context.facts)

    amal.read(get)
    assert facts == {"blob": artifact.blob, "digest": artifact.digest}


def test_downloads_are_octets_under_a_harmless_name(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    for name, expected in (
        ("pages/index.html", "index.html"),
        ('x"; filename="evil.exe', "x___filename__evil.exe"),
        ("تقرير.pdf", "_____.pdf"),
    ):
        amal.save(run, name)
        download = amal.download(run, name)
        assert (download.name, download.media_type) == (expected, "application/octet-stream")


def test_no_name_or_content_of_a_file_stands_in_storage_in_the_clear(shelf: Shelf) -> None:
    amal = shelf.caller()
    amal.save(amal.new_run(), "secret-plan.txt", b"the secret formula" * 100)
    for file in (shelf.folder / "blobs").rglob("*"):
        assert "secret" not in file.name
        if file.is_file():
            assert b"secret formula" not in file.read_bytes()
    rows = shelf.database.read(lambda work: work.execute(select(storage_store.blobs.c.name)).scalars().all())
    assert set(rows) == {""}


def at_once(*calls: Any) -> list[Any]:
    """What came of calls that were made at the same moment: their results, or what they raised."""
    together, outcomes = threading.Barrier(len(calls)), []

    def run(call: Any) -> None:
        together.wait()
        try:
            outcomes.append(call())
        except Exception as error:  # noqa: BLE001
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
