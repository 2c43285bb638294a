"""Garbage collection: what nothing names goes, what something names stays, in any order of events."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from falaj.base.clock import DAY, HOUR, MINUTE, Moment, SystemClock
from falaj.base.errors import NotFound, Unavailable
from falaj.storage import store
from falaj.storage.blobs import Stored
from falaj.storage.collection import GRACE, GarbageCollector
from falaj.storage.errors import UploadExpired
from falaj.storage.folder import FolderBlobs
from falaj.storage.service import Received
from tests.storage.platform import Platform


class Aged(FolderBlobs):
    """A folder whose files are as old as the test's clock says: made when the upload began, as some services tell it."""

    def __init__(self, root: Path, platform: Platform) -> None:
        super().__init__(root)
        self._platform = platform
        self.made: dict[str, Moment] = {}

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        now = self._platform.clock.now()
        return tuple(Stored(id=s.id, modified=self.made.setdefault(s.id, now)) for s in super().list(after, limit))


def age(platform: Platform) -> Aged:
    """Let the platform's files follow its clock."""
    aged = Aged(platform.folder / "blobs", platform)
    platform.places["local"] = platform.blobs = aged
    return aged


def test_an_orphan_goes_after_the_grace_period_and_not_before(platform: Platform) -> None:
    age(platform)
    received = platform.caller().receive(b"never finished")
    platform.collect()
    platform.set_clock.move(GRACE - MINUTE)
    platform.collect()
    assert platform.objects() == {received.object}
    platform.set_clock.move(2 * MINUTE)
    platform.collect()
    assert platform.objects() == set()


def test_what_is_referenced_stays_however_old(platform: Platform) -> None:
    age(platform)
    blob = platform.caller().put(b"kept")
    platform.collect()
    for _ in range(3):
        platform.set_clock.move(400 * DAY)
        platform.collect()
    assert platform.caller().get(blob.id) == b"kept"


def test_an_upload_whose_object_was_condemned_is_refused_not_lost(platform: Platform) -> None:
    """The store says the object is older than the grace period, because the upload took that long."""
    aged = age(platform)
    received = platform.caller().receive(b"very slow")
    aged.made[received.object] = Moment(platform.clock.now() - 2 * GRACE)
    platform.collector.step(platform.clock.now())
    with pytest.raises(UploadExpired, match="send it again"):
        platform.caller().finish(received)
    assert platform.caller().get(platform.caller().put(b"very slow").id) == b"very slow"


def test_an_upload_that_was_kept_cannot_be_condemned(platform: Platform) -> None:
    aged = age(platform)
    received = platform.caller().receive(b"slow, but in time")
    aged.made[received.object] = Moment(platform.clock.now() - 2 * GRACE)
    blob = platform.caller().finish(received)
    platform.collect()
    assert platform.caller().get(blob.id) == b"slow, but in time"


def test_a_large_store_is_walked_in_bounded_steps(platform: Platform) -> None:
    aged = age(platform)
    kept = [platform.caller().put(b"%d" % number).id for number in range(4)]
    for _ in range(9):
        aged.put(os.urandom(16).hex(), iter([b"orphan"]))
    platform.collect()
    platform.set_clock.move(2 * GRACE)
    collector = GarbageCollector(platform.database, platform.places, batch=3)
    for _ in range(12):
        step = collector.step(platform.clock.now())
        assert step.condemned <= 3
        assert step.removed <= 3
    assert len(platform.objects()) == 4
    assert [platform.caller().get(blob) for blob in kept] == [b"0", b"1", b"2", b"3"]


def test_a_store_that_does_not_answer_is_tried_again_and_does_not_stop_the_others(platform: Platform) -> None:
    class Silent(FolderBlobs):
        silent = True

        def delete(self, object_id: str) -> None:
            if self.silent:
                raise Unavailable("silent")
            super().delete(object_id)

        def list(self, after: str, limit: int) -> tuple[Stored, ...]:
            if self.silent:
                raise Unavailable("silent")
            return super().list(after, limit)

    platform.places["nowhere"] = silent = Silent(platform.folder / "silent")
    far, near = platform.caller().put(b"x", zone="far"), platform.caller().put(b"x")
    platform.caller().delete(far.id)
    platform.caller().delete(near.id)
    assert platform.collector.step(platform.clock.now()).failed == 2
    assert platform.objects() == set()
    silent.silent = False
    platform.collect()
    assert silent.list("", 10) == ()


def test_tombstones_are_forgotten_in_the_end(platform: Platform) -> None:
    platform.caller().delete(platform.caller().put(b"x").id)
    platform.collect()
    platform.set_clock.move(8 * DAY)
    platform.collect()
    assert platform.database.read(lambda work: work.execute(store.objects.select()).all()) == []


class Interleavings(RuleBasedStateMachine):
    """Uploads, finishes, drops, shreds, collections and time in any order: the platform agrees with a simple model."""

    uploads = Bundle("uploads")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.platform = Platform(Path(self.folder.name))
        age(self.platform)
        self.people = [self.platform.caller(person=name) for name in ("amal", "badr")]
        self.held: dict[str, set[int]] = {}
        self.content: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.platform.database.close()
        self.folder.cleanup()

    @rule(target=uploads, content=some.sampled_from([b"", b"a", b"b", b"c" * 100]))
    def upload(self, content: bytes) -> tuple[Received, bytes]:
        return self.people[0].receive(content), content

    @rule(upload=consumes(uploads), person=some.integers(0, 1))
    def finish(self, upload: tuple[Received, bytes], person: int) -> None:
        received, content = upload
        try:
            blob = self.people[person].finish(received)
        except UploadExpired:
            assert self.platform.clock.now() - received.at > HOUR
            return
        self.held.setdefault(blob.id, set()).add(person)
        self.content[blob.id] = content

    @rule(number=some.integers(0, 9), person=some.integers(0, 1))
    def drop(self, number: int, person: int) -> None:
        mine = sorted(blob for blob, holders in self.held.items() if person in holders)
        if mine:
            blob = mine[number % len(mine)]
            self.held[blob].remove(person)
            assert self.people[person].delete(blob) == (not self.held[blob])
            if not self.held[blob]:
                del self.held[blob]

    @rule(number=some.integers(0, 9))
    def shred(self, number: int) -> None:
        if self.held:
            blob = sorted(self.held)[number % len(self.held)]
            self.people[0].shred(blob)
            del self.held[blob]

    @rule()
    def collect(self) -> None:
        self.platform.collector.step(self.platform.clock.now())

    @rule()
    def rotate(self) -> None:
        self.people[0].rotate_key()

    @rule()
    def rewrap(self) -> None:
        self.platform.rotation.step(self.platform.clock.now())

    @rule(by=some.sampled_from([MINUTE, 50 * MINUTE, 23 * HOUR, 2 * DAY, 9 * DAY]))
    def wait(self, by: int) -> None:
        self.platform.set_clock.move(by)

    @invariant()
    def what_is_held_is_readable_and_nothing_else_is(self) -> None:
        for blob, content in self.content.items():
            if blob in self.held:
                assert self.people[0].get(blob) == content
            else:
                with pytest.raises(NotFound):
                    self.people[0].get(blob)

    @invariant()
    def in_the_end_only_what_is_held_is_stored(self) -> None:
        names = self.platform.database.read(lambda work: set(work.execute(store.blobs.select()).scalars("object")))
        assert names <= self.platform.objects()
        assert len(names) == len(self.held)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


KILLED = """
import sys
from pathlib import Path
from falaj.base.clock import SystemClock
from tests.storage.platform import Platform

platform = Platform(Path(sys.argv[1]), clock=SystemClock())
amal = platform.caller()
gone = amal.put(b"gone" * 1000)
amal.delete(gone.id)
platform.collect()
amal.rotate_key()
platform.rotate()
other = platform.caller("beta")
other.put(b"other")
other.shred_project()
platform.rotate()
"""
POINTS = [
    "storage.object-written",
    "storage.objects-removed",
    "storage.key-rotated",
    "storage.keys-rewrapped",
    "storage.key-destroyed",
    "keys.escrow-written",
    "keys.ring-written",
    "sqlite.before-commit",
    "sqlite.after-commit",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_nothing_that_was_acknowledged(point: str, tmp_path: Path) -> None:
    before = Platform(tmp_path, clock=SystemClock())
    kept = before.caller().put(b"kept" * 1000).id
    before.database.close()
    environment = {**os.environ, "FALAJ_FAILPOINT": point}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    platform = Platform(tmp_path)
    platform.set_clock.time = Moment(2**51)  # far in the future: every grace period is over
    try:
        amal, beta = platform.caller(), platform.caller("beta")
        assert amal.get(kept) == b"kept" * 1000
        amal.rotate_key()
        for _ in range(3):
            platform.rotate()
            platform.collect()
        assert amal.get(kept) == b"kept" * 1000
        rows = platform.database.read(lambda work: work.execute(store.blobs.select()).all())
        assert {row.object for row in rows} == platform.objects()
        assert not amal.key().rotating
        for row in rows:
            caller = amal if row.project == amal.facts.id else beta
            assert len(caller.get(row.id)) == row.size
    finally:
        platform.database.close()
