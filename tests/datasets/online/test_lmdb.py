"""The store in a folder: what it promises, and what it does when killed, cramped or damaged."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from falaj.base.clock import Moment
from falaj.datasets.online.errors import OnlineUnavailable, StoreDamaged
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.stores import VIEW_BYTES, Freshness, Rank, pack_rank
from falaj.testing.online import OnlineStoreConformance, some_places, stored

MIB = 1 << 20
VIEW = bytes(range(VIEW_BYTES))
PLACES = [VIEW + number.to_bytes(16) for number in range(500)]
# Another process on the same folder: writes one materialisation after another, each in one call, and says which it did.
WRITER = """
import sys
from pathlib import Path
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.stores import Rank
from falaj.testing.online import stored
from tests.datasets.online.test_lmdb import PLACES, VIEW
store = LmdbStore(Path(sys.argv[1]), first_map=64 << 20)
for of in range(int(sys.argv[2]), int(sys.argv[3])):
    store.write(VIEW, [stored(place, Rank(of), bytes(int(sys.argv[4]))) for place in PLACES])
    print(of, flush=True)
"""


def writer(folder, start, end, size=200):
    arguments = [sys.executable, "-c", WRITER, str(folder), str(start), str(end), str(size)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def store(tmp_path):
    opened = LmdbStore(tmp_path / "online")
    yield opened
    opened.close()


class TestLmdb(OnlineStoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        opened = LmdbStore(tmp_path / "online")
        yield opened
        opened.close()


class TestLmdbThatHasToGrow(OnlineStoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        opened = LmdbStore(tmp_path / "online", first_map=64 << 10)
        yield opened
        opened.close()


def test_only_its_owner_may_look_into_the_folder(store, tmp_path):
    folder = tmp_path / "online"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *sorted(folder.iterdir()))] == [0o700, 0o600, 0o600]


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path):
    for of in range(3):
        opened = LmdbStore(tmp_path)
        opened.write(VIEW, [stored(PLACES[of], Rank(of))])
        opened.close()
    again = LmdbStore(tmp_path)
    assert again.read(PLACES[:4]) == [*(pack_rank(Rank(of)) for of in range(3)), None]
    again.close()


def test_a_writer_killed_at_any_moment_leaves_whole_materialisations(tmp_path):
    done = 0
    for turn in range(8):
        with writer(tmp_path, done + 1, 10**9) as process:
            said = [int(process.stdout.readline())]
            time.sleep(0.003 * turn)
            process.send_signal(signal.SIGKILL)
            said += [int(line) for line in process.stdout.read().split()]
        store = LmdbStore(tmp_path)
        found, freshness = store.read(PLACES), store.freshness(VIEW)
        store.close()
        done = freshness.newest
        assert done in (said[-1], said[-1] + 1), "what was acknowledged is there"
        assert set(found) == {pack_rank(Rank(done)) + bytes(200)}
        assert freshness == Freshness(complete=None, newest=Moment(done), rows=len(PLACES))


def test_readers_and_writers_of_two_processes_see_whole_materialisations_while_the_map_grows(tmp_path):
    store = LmdbStore(tmp_path, first_map=1 * MIB)
    with writer(tmp_path, 1, 41, size=4000) as process:
        before = 0
        while process.poll() is None:
            assert len(set(store.read(PLACES))) == 1
            newest = store.freshness(VIEW).newest or 0
            assert newest >= before
            before = newest
    assert process.returncode == 0
    assert store.write(VIEW, [stored(PLACES[0], Rank(50))]) == 1
    assert store.read(PLACES[:2]) == [pack_rank(Rank(50)), pack_rank(Rank(40)) + bytes(4000)]
    store.close()


def test_a_fork_is_told_that_it_cannot_use_what_it_inherited(tmp_path):
    code = """
import os, sys
from pathlib import Path
from falaj.datasets.online.errors import OnlineRefused
from falaj.datasets.online.lmdb import LmdbStore
from tests.datasets.online.test_lmdb import PLACES, VIEW
store = LmdbStore(Path(sys.argv[1]))
if (child := os.fork()) == 0:
    for use in (lambda: store.read(PLACES), lambda: store.write(VIEW, []), lambda: store.drop(VIEW)):
        try:
            use()
        except OnlineRefused as error:
            print(error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
assert store.read(PLACES[:1]) == [None]
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("of which this is a fork") == 3


def test_a_folder_is_opened_once_in_a_process(store, tmp_path):
    with pytest.raises(OnlineUnavailable, match="already open"):
        LmdbStore(tmp_path / "online")


CRAMPED = """
import sys
from pathlib import Path
from falaj.base.errors import OutOfSpace
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.stores import Rank
from falaj.testing.online import stored
from tests.datasets.online.test_lmdb import PLACES, VIEW, cramp
store = LmdbStore(Path(sys.argv[1]), first_map=16 << 20)
rows, more = ([stored(place, Rank(of), bytes(20_000)) for place in PLACES] for of in (1, 2))
store.write(VIEW, rows)
cramp(sys.argv[2])
try:
    store.write(VIEW, more)
except OutOfSpace as error:
    print(error)
before = [store.read(PLACES) == [row for _, row in rows], store.freshness(VIEW).newest]
cramp(sys.argv[2], free=True)
print(before, store.write(VIEW, more))
"""


def cramp(what: str, *, free: bool = False) -> None:
    """No more memory to map, or no room in the file."""
    limit = getattr(resource, what)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + 12 * MIB if what == "RLIMIT_AS" else 14 * MIB
    resource.setrlimit(limit, (resource.RLIM_INFINITY if free else room, resource.RLIM_INFINITY))


@pytest.mark.parametrize(("what", "said"), [("RLIMIT_AS", "cannot grow beyond"), ("RLIMIT_FSIZE", "is full")])
def test_without_room_writing_is_refused_reading_goes_on_and_it_recovers(tmp_path, what, said):
    done = subprocess.run([sys.executable, "-c", CRAMPED, str(tmp_path), what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, after = done.stdout.splitlines()
    assert said in told
    assert after == "[True, 1] 500"


def test_rows_of_dropped_views_make_room_for_others(tmp_path):
    store = LmdbStore(tmp_path, first_map=4 * MIB)
    for turn in range(30):
        view = os.urandom(VIEW_BYTES)
        store.write(view, [stored(place, Rank(turn), bytes(1000)) for place in some_places(view, 1000)])
        store.drop(view)
    assert (tmp_path / "data.mdb").stat().st_size < 10 * MIB
    store.close()


def test_a_folder_that_is_no_store_is_told(tmp_path):
    (tmp_path / "data.mdb").write_bytes(b"not a store" * 1000)
    with pytest.raises(StoreDamaged, match="damaged: remove the folder"):
        LmdbStore(tmp_path)


def test_a_folder_that_cannot_be_used_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OnlineUnavailable, match="file"):
        LmdbStore(tmp_path / "file")


def test_a_store_without_its_folder_says_so(store, tmp_path):
    (tmp_path / "online").rename(tmp_path / "elsewhere")
    with pytest.raises(OnlineUnavailable, match="mounted"):
        store.probe()


def test_a_folder_of_somebody_else_is_told(tmp_path):
    code = """
import os, sys
from pathlib import Path
from falaj.datasets.online.errors import OnlineRefused
from falaj.datasets.online.lmdb import LmdbStore
import lmdb
if os.getuid() == 0:
    os.seteuid(65534)  # root may look into every folder
try:
    LmdbStore(Path(sys.argv[1]))
except OnlineRefused as error:
    print(error)
"""
    (tmp_path / "theirs").mkdir(mode=0)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "theirs")], capture_output=True, text=True, check=False)
    assert "look at [features] in falaj.toml" in done.stdout, done.stderr
