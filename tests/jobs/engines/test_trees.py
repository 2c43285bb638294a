"""What a job leaves in its folders is counted and removed, however deep or closed it is, and nothing else is touched."""

import logging
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.jobs.engines.engine import Limits
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.running import trees
from falaj.jobs.running.measures import Unmeasured, lying_in
from tests.jobs.engines.local import WAYS, ended, launched, wait_for

NOBODY = 65534
LONG = "d" * 100


def dig(top: Path, depth: int, name: str, size: int = 0) -> None:
    """Folders in folders, and a file in the last one."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(bytes(size))
    os.close(here)


def descriptors() -> set[int]:
    return {int(one.name) for one in Path("/proc/self/fd").iterdir()}


def as_nobody(folder: Path, code: str) -> str:
    """What Python `code` prints, run in `folder` by somebody whom rights bind."""
    before = f"""
import os, stat
from pathlib import Path
from falaj.jobs.running import trees
from falaj.jobs.running.measures import lying_in
os.chdir({str(folder)!r})
if not os.geteuid():
    os.chown(".", {NOBODY}, {NOBODY})
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
def rights(path):
    return oct(stat.S_IMODE(os.stat(path).st_mode))
"""
    told = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_what_lies_beyond_the_longest_path_counts(tmp_path):
    dig(tmp_path, 60, LONG, size=3 << 20)
    assert 3 << 20 <= lying_in(str(tmp_path)) < 4 << 20
    trees.remove(tmp_path / LONG)
    assert lying_in(str(tmp_path)) == 0


def test_what_lies_too_deep_is_not_taken_for_nothing(tmp_path):
    dig(tmp_path, 300, "d", size=1)
    before = descriptors()
    with pytest.raises(Unmeasured, match="deep"):
        lying_in(str(tmp_path))
    assert descriptors() == before


def test_a_folder_that_is_away_takes_nothing(tmp_path):
    assert lying_in(str(tmp_path / "none")) == 0


def test_what_is_counted_is_not_followed_out(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(bytes(1 << 20))
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    assert lying_in(str(tmp_path / "inside")) < 1 << 13


def test_a_closed_folder_is_counted_and_stays_closed(tmp_path):
    told = as_nobody(
        tmp_path,
        """
Path("top/shut/deeper").mkdir(parents=True)
Path("top/shut/deeper/file").write_bytes(bytes(2 << 20))
os.chmod("top/shut/deeper", 0o400)
os.chmod("top/shut", 0)
print(lying_in("top") >= 2 << 20, rights("top/shut"))
os.chmod("top/shut", 0o700)
print(rights("top/shut/deeper"))
""",
    )
    assert told.split() == ["True", "0o0", "0o400"]


def test_removing_follows_no_link_and_changes_nothing_outside(tmp_path):
    told = as_nobody(
        tmp_path,
        """
Path("precious").mkdir()
Path("precious/file").write_text("x")
os.chmod("precious/file", 0o644)
os.chmod("precious", 0o755)
Path("attempt/work/shut/empty").mkdir(parents=True)
Path("attempt/work/shut/full").mkdir()
Path("attempt/work/shut/full/file").touch()
os.symlink(os.path.abspath("precious"), "attempt/work/shut/folder")
os.symlink(os.path.abspath("precious/file"), "attempt/work/shut/file")
for place in ("shut/full", "shut/empty", "shut"):
    os.chmod("attempt/work/" + place, 0o500)
os.chmod("attempt/work", 0)
trees.remove(Path("attempt"))
os.symlink("precious", "link")
trees.remove(Path("link"))
print(os.listdir(), rights("precious"), rights("precious/file"), Path("precious/file").read_text())
""",
    )
    assert told.strip() == "['precious'] 0o755 0o644 x"


def test_removing_takes_neither_the_stack_nor_descriptors(tmp_path):
    (tmp_path / "attempt").mkdir()
    dig(tmp_path / "attempt", sys.getrecursionlimit() + 50, "d")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(descriptors()) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        trees.remove(tmp_path / "attempt")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert list(tmp_path.iterdir()) == []


def test_several_may_remove_the_same_at_once(tmp_path):
    (tmp_path / "attempt").mkdir()
    for name in ("a", "b", "c"):
        dig(tmp_path / "attempt", 300, name)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(trees.remove, [tmp_path / "attempt"] * 3)) == [None] * 3
    assert list(tmp_path.iterdir()) == []


TREES = st.recursive(
    st.sampled_from(["file", "link", "broken", "pipe"]),
    lambda within: st.dictionaries(st.sampled_from(["a", "b\n", "ü", "-rf", "\udcff"]), within, max_size=4),
    max_leaves=12,
)


@given(tree=st.dictionaries(st.sampled_from(["a", "b", "c"]), TREES))
@settings(max_examples=25, deadline=None)
def test_nothing_is_left_and_nothing_else_is_lost(tmp_path_factory, tree):
    base = tmp_path_factory.mktemp("tree")
    (base / "kept").mkdir()
    (base / "kept" / "file").touch()

    def lay(place, what):
        if isinstance(what, dict):
            place.mkdir()
            for name, within in what.items():
                lay(place / name, within)
        elif what == "file":
            place.touch(mode=0)
        elif what == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to(base / "kept" if what == "link" else "nowhere")

    lay(base / "gone", tree)
    trees.remove(base / "gone")
    trees.remove(base / "gone")  # it is away already
    assert [path.relative_to(base).as_posix() for path in sorted(base.rglob("*"))] == ["kept", "kept/file"]


def test_one_that_cannot_be_removed_is_told_and_the_rest_goes(tmp_path, monkeypatch):
    for name in ("a", "stays", "z"):
        (tmp_path / "attempt" / name).mkdir(parents=True)
        (tmp_path / "attempt" / name / "file").touch()
    really = os.unlink

    def unlink(name, *, dir_fd):
        if Path(f"/proc/self/fd/{dir_fd}").readlink().name == "stays":
            raise PermissionError(1, "Operation not permitted")
        really(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(OSError, match="not empty"):
        trees.remove(tmp_path / "attempt")
    assert [path.name for path in (tmp_path / "attempt").iterdir()] == ["stays"]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_digs_is_ended_and_leaves_nothing(way, tmp_path):
    """Beyond the longest path, and, deeper, beyond what anybody counts."""
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", **WAYS[way]))
    code = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
for number in range(int(sys.argv[2])):
    open(str(number), "wb").write(bytes(10 << 20))
time.sleep(60)
"""
    limits = Limits(seconds=60, disk_mib=16)
    attempts = [launched(engine, "python", "-c", code, *told, limits=limits) for told in (("100", "3"), ("300", "0"))]
    ends = [ended(engine, attempt) for attempt in attempts]
    assert [end.cause for end in ends] == ["disk", "disk"]
    assert ["filled more" in ends[0].words, "deep" in ends[1].words] == [True, True]
    for attempt in attempts:
        engine.forget(attempt)
    wait_for(lambda: not list((tmp_path / "jobs" / "attempts").iterdir()))


def test_a_platform_starts_whatever_a_job_left(tmp_path, monkeypatch, caplog):
    attempts = tmp_path / "jobs" / "attempts"
    (attempts / ".deep.gone").mkdir(parents=True)
    dig(attempts / ".deep.gone", 100, LONG)
    (attempts / ".file.gone").touch()
    (attempts / ".link.gone").symlink_to(tmp_path)
    (attempts / ".stays.gone").mkdir()
    (tmp_path / "jobs" / "forgotten" / "odd").mkdir(parents=True)
    os.utime(tmp_path / "jobs" / "forgotten" / "odd", (0, 0))
    really = trees.remove

    def remove(place):
        if place.name == ".stays.gone":
            raise RecursionError("too deep")
        really(place)

    monkeypatch.setattr(trees, "remove", remove)
    with caplog.at_level(logging.WARNING):
        engine = LocalEngine(tmp_path / "jobs", Site(zone="here"))
        wait_for(lambda: [path.name for path in attempts.iterdir()] == [".stays.gone"] and caplog.records)
    assert [".stays.gone" in record.getMessage() for record in caplog.records] == [True]
    assert engine.look() == []
