"""Large artifacts in parts: nothing before the end, all of it then, and nothing left of what never ended."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from falaj.base.clock import DAY, HOUR, Moment, SystemClock
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.storage.errors import ZoneNotAllowed
from falaj.tracking.artifacts import store
from falaj.tracking.operations import artifacts as declared
from falaj.tracking.store.runs import DELETED
from tests.tracking.artifacts.shelf import Shelf
from tests.tracking.artifacts.test_service import at_once

MIB = 1 << 20


def test_parts_put_in_any_order_become_one_artifact_when_they_are_finished(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    contents = [os.urandom(MIB + 3), b"", os.urandom(17)]
    upload = amal.begin_upload(run, "model/weights.bin")
    parts = {number: amal.put_part(upload, number, contents[number - 1]) for number in (3, 1, 2)}
    assert amal.names(run) == []
    assert parts[3].digest == hashlib.sha256(contents[2]).hexdigest()
    artifact = amal.finish_upload(upload, parts[1], parts[2], parts[3])
    whole = b"".join(contents)
    assert (artifact.size, artifact.digest) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert amal.load(run, "model/weights.bin") == whole
    assert shelf.count(store.uploads, store.parts) == [0, 0]
    shelf.assert_nothing_leaks()
    assert len(shelf.objects()) == 1


@given(contents=some.lists(some.binary(max_size=30), min_size=1, max_size=6), data=some.data())
@settings(max_examples=15, deadline=None)
def test_any_cut_of_any_content_joins_to_that_content(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], data: some.DataObject
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    try:
        amal = shelf.caller()
        run = amal.new_run()
        upload = amal.begin_upload(run, "a")
        order = data.draw(some.permutations(range(len(contents))))
        parts = {number: amal.put_part(upload, number + 1, contents[number]) for number in order}
        amal.finish_upload(upload, *(parts[number] for number in range(len(contents))))
        assert amal.load(run, "a") == b"".join(contents)
        shelf.assert_nothing_leaks()
    finally:
        shelf.database.close()


def test_equal_parts_are_each_counted(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    parts = [amal.put_part(upload, number, b"same") for number in (1, 2, 3)]
    amal.finish_upload(upload, *parts)
    assert amal.load(run, "a") == b"same" * 3
    shelf.assert_nothing_leaks()


def test_a_part_put_again_replaces_the_earlier_one(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    torn = amal.put_part(upload, 1, b"torn")
    whole = amal.put_part(upload, 1, b"whole")
    shelf.assert_nothing_leaks()
    with pytest.raises(Conflict, match="put it again"):
        amal.finish_upload(upload, torn)
    amal.finish_upload(upload, whole)
    assert amal.load(run, "a") == b"whole"


def test_finishing_with_parts_that_are_not_there_wrong_double_or_forgotten_is_refused(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    first, second = amal.put_part(upload, 1, b"1"), amal.put_part(upload, 2, b"2")
    wrong = declared.Part(part=2, size=1, digest=first.digest)
    missing = declared.Part(part=3, size=1, digest=first.digest)
    for parts, error, words in (
        ((first, second, missing), Conflict, "was not put"),
        ((first, wrong), Conflict, "put it again"),
        ((first, declared.Part(part=2, size=5, digest=second.digest)), Conflict, "put it again"),
        ((first, second, first), Invalid, "more than once"),
        ((first,), Conflict, "is not named"),
    ):
        with pytest.raises(error, match=words):
            amal.finish_upload(upload, *parts)
    assert amal.names(run) == []
    amal.finish_upload(upload, second, first)
    assert amal.load(run, "a") == b"21"


def test_a_part_replaced_while_they_are_joined_is_noticed(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    parts = (amal.put_part(upload, 1, b"old"),)
    joined = amal.begin(declared.FINISH_UPLOAD, upload=upload, parts=parts)
    amal.put_part(upload, 1, b"new")
    with pytest.raises(Conflict, match="put it again"):
        amal.complete(declared.FINISH_UPLOAD, joined, upload=upload, parts=parts)
    assert amal.names(run) == []


def test_another_projects_upload_does_not_exist(shelf: Shelf) -> None:
    amal, stranger = shelf.caller(), shelf.caller("beta")
    upload = amal.begin_upload(amal.new_run(), "a")
    part = amal.put_part(upload, 1, b"x")
    for call in (
        lambda of: stranger.put_part(of, 1, b"y"),
        lambda of: stranger.finish_upload(of, part),
        lambda of: stranger.call(declared.ABORT_UPLOAD, upload=of),
    ):
        messages = set()
        for other in (upload, "0" * 32):
            with pytest.raises(NotFound) as refused:
                call(other)
            messages.add(str(refused.value).replace(other, ""))
        assert len(messages) == 1
    amal.finish_upload(upload, part)


def test_what_is_given_up_leaves_nothing(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    part = amal.put_part(upload, 1, b"x")
    amal.call(declared.ABORT_UPLOAD, upload=upload)
    for call in (lambda: amal.put_part(upload, 2, b"y"), lambda: amal.finish_upload(upload, part)):
        with pytest.raises(NotFound, match="no upload"):
            call()
    shelf.assert_nothing_leaks()
    assert not shelf.objects()


def test_an_upload_expires_after_a_day(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    early, late = amal.begin_upload(run, "early"), ""
    part = amal.put_part(early, 1, b"early")
    shelf.set_clock.move(DAY - HOUR)
    late = amal.begin_upload(run, "late")
    kept = amal.put_part(late, 1, b"late")
    shelf.artifacts.step(shelf.clock.now())
    assert shelf.count(store.uploads) == [2]
    shelf.set_clock.move(HOUR)
    with pytest.raises(NotFound):  # also before anybody cleared it away
        amal.finish_upload(early, part)
    shelf.assert_nothing_leaks()
    assert len(shelf.objects()) == 1
    amal.finish_upload(late, kept)
    assert amal.names(run) == ["late"]


def test_many_expired_uploads_of_many_parts_go_in_rounds(shelf: Shelf) -> None:
    for project in ("alpha", "beta"):
        caller = shelf.caller(project)
        run = caller.new_run()
        for number in range(13):
            upload = caller.begin_upload(run, "a")
            for part in range(1, 6):
                caller.put_part(upload, part, b"%d %d" % (number, part))
    shelf.set_clock.move(DAY)
    assert shelf.artifacts.step(shelf.clock.now())
    shelf.assert_nothing_leaks()
    assert shelf.count(store.uploads, store.parts) == [0, 0]
    assert not shelf.objects()


def test_the_name_may_be_taken_meanwhile_and_is_replaced(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    part = amal.put_part(upload, 1, b"large")
    amal.save(run, "a", b"small")
    amal.finish_upload(upload, part)
    assert amal.load(run, "a") == b"large"
    shelf.assert_nothing_leaks()


def test_a_run_deleted_meanwhile_gets_no_artifact(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    part = amal.put_part(upload, 1, b"x")
    amal.set_run(run, DELETED)
    with pytest.raises(Invalid, match="restore it"):
        amal.finish_upload(upload, part)


def test_names_are_checked_when_an_upload_begins_and_when_it_ends(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    with pytest.raises(Invalid, match="artifact name"):
        amal.begin_upload(run, "../a")
    upload = amal.begin_upload(run, "a")
    part = amal.put_part(upload, 1, b"x")
    amal.save(run, "a/b")
    with pytest.raises(Conflict, match="is a folder"):
        amal.finish_upload(upload, part)
    amal.remove(run, "a")
    amal.finish_upload(upload, part)


def test_a_project_without_a_place_begins_no_upload(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    amal.facts = type(amal.facts)(id=amal.facts.id, name="alpha", places=())
    with pytest.raises(ZoneNotAllowed):
        amal.begin_upload(run, "b")
    with pytest.raises(Forbidden):
        amal.put_part(upload, 1, b"x")


def test_two_who_finish_one_upload_at_once_make_one_artifact(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    for number in range(4):
        upload = amal.begin_upload(run, f"{number}")
        part = amal.put_part(upload, 1, b"%d" % number)
        outcomes = at_once(*[lambda upload=upload, part=part: amal.finish_upload(upload, part)] * 2)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Artifact", "NotFound"]
        assert amal.load(run, f"{number}") == b"%d" % number
    shelf.assert_nothing_leaks()


def test_parts_put_at_once_are_all_there(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    upload = amal.begin_upload(run, "a")
    puts = [lambda number=number: amal.put_part(upload, number, b"%d" % number) for number in range(1, 7)]
    again = [lambda: amal.put_part(upload, 6, b"6")] * 2
    outcomes = at_once(*puts, *again)
    parts = {part.part: part for part in outcomes}
    amal.finish_upload(upload, *(parts[number] for number in range(1, 7)))
    assert amal.load(run, "a") == b"123456"
    shelf.assert_nothing_leaks()


KILLED_WHILE = """
import sys
from pathlib import Path
from falaj.base.clock import SystemClock
from tests.tracking.artifacts.shelf import Shelf

shelf = Shelf(Path(sys.argv[1]), clock=SystemClock())
amal = shelf.caller()
run = amal.new_run()
print(run, flush=True)
upload = amal.begin_upload(run, "a")
parts = [amal.put_part(upload, number, b"part %d" % number) for number in (1, 2)]
amal.finish_upload(upload, *parts)
"""


@pytest.mark.parametrize("point", ["storage.object-written@2", "storage.object-written@3", "sqlite.before-commit@5"])
def test_a_kill_in_the_middle_leaves_nothing_visible_and_nothing_for_good(point: str, tmp_path: Path) -> None:
    """Killed while the second part comes in, after the parts were joined, and before the join is committed."""
    command = [sys.executable, "-c", KILLED_WHILE, str(tmp_path)]
    done = subprocess.run(command, env=os.environ | {"FALAJ_FAILPOINT": point}, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    shelf = Shelf(tmp_path, clock=SystemClock())
    try:
        amal = shelf.caller()
        run = done.stdout.strip()
        assert amal.names(run, deep=True) == []
        assert shelf.count(store.artifacts) == [0]
        while shelf.artifacts.step(Moment(shelf.clock.now() + DAY)):
            pass
        assert shelf.count(store.uploads, store.parts, store.leftovers) == [0, 0, 0]
    finally:
        shelf.database.close()
