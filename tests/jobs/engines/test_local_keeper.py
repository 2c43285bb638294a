"""What happens to attempts when engines, keepers and hosts go away under them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from falaj.base.errors import Invalid
from falaj.jobs.engines.engine import Environment, Limits
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.running import folders, keeper, limits
from falaj.runtimes.processes import tree
from tests.jobs.engines.local import WAYS, ended, launched, logged, seen, wait_for


@pytest.fixture
def make_engine(tmp_path):
    return lambda: LocalEngine(tmp_path / "jobs", Site(zone="here"))


@pytest.fixture(params=WAYS)
def make_engine_either_way(request, tmp_path):
    return lambda: LocalEngine(tmp_path / "jobs", Site(zone="here", **WAYS[request.param]))


def status(tmp_path, attempt):
    return folders.read(tmp_path / "jobs" / "attempts" / attempt / folders.STATUS)


def running(engine, script="echo ready; sleep 60", **changes):
    attempt = launched(engine, "sh", "-c", script, **changes)
    wait_for(lambda: "ready" in logged(engine, attempt))
    return attempt


def has_gone(process):
    """It may wait for somebody to ask how it ended."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_with_its_keeper_everything_of_an_attempt_dies(make_engine_either_way, tmp_path):
    engine = make_engine_either_way()
    attempt = running(engine, "trap '' TERM HUP; setsid sh -c 'while true; do sleep 1; done' & echo ready; sleep 60")
    pid = status(tmp_path, attempt)["keeper"][0]
    processes = [psutil.Process(one) for one in tree(pid)]
    assert len(processes) > 4
    os.kill(pid, signal.SIGKILL)
    end = ended(engine, attempt)
    assert (end.cause, end.code) == ("lost", None)
    assert end.started is not None
    wait_for(lambda: all(has_gone(process) for process in processes))
    assert seen(make_engine_either_way(), attempt) == end


def test_what_was_killed_while_its_walls_were_built_does_not_stay(make_engine, monkeypatch):
    """Bubblewrap's second process waits for a word of its first, which in some of these cases does not live to say it."""

    def spawn(place, *_):
        walls = ["bwrap", "--unshare-pid", "--as-pid-1", "--dev-bind", "/", "/", "--chdir", str(place), "true"]
        for number in range(300):
            with subprocess.Popen(walls) as first:
                time.sleep(number * 0.00001)
                first.kill()
        assert stuck(place)

    def stuck(place):
        return [one for one in psutil.process_iter(["cmdline"]) if str(place) in (one.info["cmdline"] or ())]

    engine = make_engine()
    places = []
    monkeypatch.setattr(engine, "_spawn", lambda place, *_: (places.append(place), spawn(place)))
    attempt = launched(engine, "true")
    monkeypatch.undo()
    assert ended(engine, attempt).cause == "lost"
    wait_for(lambda: all(has_gone(one) for one in stuck(places[0])))


def test_an_attempt_outlives_whoever_started_it(make_engine, tmp_path):
    code = f"""
import os, sys
sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path
from tests.jobs.engines.local import launched
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
engine = LocalEngine(Path({str(tmp_path / "jobs")!r}), Site(zone="here"))
print(launched(engine, "sh", "-c", "echo ready; sleep 0.4; echo survived"), flush=True)
os.kill(os.getpid(), 9)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == -signal.SIGKILL, told.stderr
    engine = make_engine()
    end = ended(engine, told.stdout.strip())
    assert end.cause == "done"
    assert logged(engine, end.attempt) == "ready\nsurvived\n"


def test_a_number_that_another_process_has_now_is_left_alone(make_engine, tmp_path):
    engine = make_engine()
    attempt = running(engine)
    place = tmp_path / "jobs" / "attempts" / attempt
    pid = status(tmp_path, attempt)["keeper"][0]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        told = folders.read(place / folders.STATUS)
        folders.write(place / folders.STATUS, told | {"keeper": [bystander.pid, 1], "sandbox": [bystander.pid, 1]})
        engine.stop(attempt, 0)
        assert ended(engine, attempt).cause == "lost"
        assert bystander.poll() is None
        bystander.kill()


def test_one_whose_starter_died_before_there_was_a_keeper_is_lost_or_started_anew(make_engine, monkeypatch):
    engine = make_engine()
    monkeypatch.setattr(engine, "_spawn", lambda *_: None)
    started_again, left = [launched(engine, "sh", "-c", "echo ran") for _ in range(2)]
    monkeypatch.undo()
    launched(engine, "sh", "-c", "echo ran", attempt=started_again)
    assert ended(engine, started_again).cause == "done"
    assert logged(engine, started_again) == "ran\n"
    assert ended(engine, left).cause == "lost"
    launched(engine, "sh", "-c", "echo ran", attempt=left)
    assert ended(engine, left).cause == "lost"


def test_one_that_was_forgotten_is_not_started_by_whoever_comes_late(make_engine):
    engine = make_engine()
    attempt = launched(engine, "true")
    ended(engine, attempt)
    engine.forget(attempt)
    launched(make_engine(), "sh", "-c", "echo again", attempt=attempt)
    assert engine.look() == []


def test_a_host_that_goes_down_lets_jobs_tidy_up(make_engine, tmp_path):
    engine = make_engine()
    attempt = running(engine, "trap 'echo tidy; exit 0' TERM; echo ready; while true; do sleep 0.05; done")
    os.kill(status(tmp_path, attempt)["keeper"][0], signal.SIGTERM)
    assert ended(engine, attempt).cause == "lost"
    assert "tidy" in logged(engine, attempt)


def test_a_keeper_that_fails_says_so(make_engine, monkeypatch, tmp_path):
    engine = make_engine()
    monkeypatch.setattr("falaj.jobs.engines.local.written", lambda order: {"not": "an order"})
    attempt = launched(engine, "true")
    assert ended(engine, attempt).cause == "lost"
    assert "Traceback" in (tmp_path / "jobs" / "attempts" / attempt / folders.TROUBLE).read_text()


def test_what_a_keeper_says_of_its_trouble_is_bounded(tmp_path):
    file = tmp_path / folders.TROUBLE
    file.write_bytes(b"before\n")
    with open(file, "ab") as opened:
        trouble = keeper.Trouble(opened.fileno())
        for _ in range(100):
            print("ü" * 1_000, file=trouble)
        print("of one that came later", file=keeper.Trouble(opened.fileno()))
    kept = file.read_bytes()
    assert len(kept) == 64 << 10
    assert kept.startswith("before\nü".encode())
    assert b"later" not in kept


def test_a_keeper_takes_little_and_reaps_what_ends(make_engine_either_way, tmp_path):
    engine = make_engine_either_way()
    attempt = running(engine, "for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done; sleep 0.2; echo ready; sleep 60")
    pid = status(tmp_path, attempt)["keeper"][0]
    assert psutil.Process(pid).memory_info().rss < 25 << 20
    assert not [one for one in tree(pid) if psutil.Process(one).status() == psutil.STATUS_ZOMBIE]
    engine.stop(attempt, 0)
    ended(engine, attempt)


def test_a_keeper_needs_the_standard_library_alone():
    code = f"import json, sys, {keeper.__name__}; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name if name.startswith("falaj") else name.partition(".")[0] for name in json.loads(told.stdout)}
    ours = {name for name in loaded if name.startswith("falaj")}
    assert not {name for name in ours if not name.startswith("falaj.jobs.running.")} - {
        *("falaj", "falaj.jobs", "falaj.jobs.running", "falaj.base", "falaj.base.errors"),
        *("falaj.runtimes", "falaj.runtimes.bubblewrap", "falaj.runtimes.processes"),
    }
    assert not {"numpy", "sqlalchemy", "pydantic", "ssl", "dataclasses", "inspect"} & loaded


@pytest.mark.parametrize("attempt", ["", "..", "a/b", ".hidden", "a" * 65, "a\n"])
def test_an_attempt_is_no_path(make_engine, attempt):
    engine = make_engine()
    for refused in (engine.forget, lambda one: engine.stop(one, 0), lambda one: engine.log(one, 0, 1)):
        with pytest.raises(Invalid):
            refused(attempt)


def test_one_that_waits_for_its_environment_can_be_stopped(make_engine, tmp_path):
    engine = make_engine()
    (tmp_path / "jobs" / "environments").mkdir()
    attempt = launched(engine, "true", environment=Environment(lock="six==1.0\n"), limits=Limits(seconds=60))
    wait_for(lambda: list((tmp_path / "jobs" / "environments").glob("*.lock")))
    engine.stop(attempt, 0)
    end = ended(engine, attempt)
    assert end.cause == "stopped"
    assert end.started is None


def test_what_a_job_has_closed_to_others_is_removed_with_it(make_engine_either_way, tmp_path):
    engine = make_engine_either_way()
    attempt = launched(engine, "sh", "-c", "mkdir -p a/b && touch a/b/c && chmod 0 a/b a")
    assert ended(engine, attempt).cause == "done"
    engine.forget(attempt)
    assert list((tmp_path / "jobs" / "attempts").iterdir()) == []


def test_control_groups_of_version_2_are_told_and_read_as_the_kernel_has_them(tmp_path, monkeypatch):
    """Files as a kernel with version 2 alone shows them: hosts with both have no controllers left for it."""
    monkeypatch.setattr(limits, "_homes", lambda: [(("memory", "cpu", "pids"), [tmp_path])])
    place = tmp_path / "falaj-a1"
    place.mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("cpuset cpu")
    there = {
        "cgroup.procs": "",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "cpu.max": "max 100000\n",
        "pids.max": "max\n",
        "memory.stat": f"anon {30 << 20}\nfile {500 << 20}\nkernel 4096\nshmem {2 << 20}\nanon_thp 0\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n",
        "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
    }
    for name, text in there.items():
        (place / name).write_text(text)
    group = limits.Group.make("a1", limits.Most(cpu_milli=1500, memory_bytes=256 << 20, processes=100))
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert group.holds_memory
    assert group.places == [str(place)]
    written = {name: (place / name).read_text() for name in ("memory.max", "memory.swap.max", "cpu.max", "pids.max")}
    assert written == {"memory.max": str(256 << 20), "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "100"}
    assert (group.memory(), group.ended_for_memory(), group.cpu_seconds()) == (32 << 20, 1, 2.5)
    group.add([os.getpid()])
    assert group.pids() == [os.getpid()]
