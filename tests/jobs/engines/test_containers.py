"""Jobs in containers that podman really runs: what they can do, and all that they cannot."""

import contextlib
import http.server
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from falaj.base.errors import Invalid
from falaj.jobs.engines.engine import Environment, Limits
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.operations.jobs import READ_EVENTS, ReadEvents
from falaj.jobs.running import folders
from falaj.jobs.scheduler.values import Seat, Shape
from tests.jobs.engines.images import podman_of_its_own
from tests.jobs.engines.local import ended, launched, logged, seen, wait_for
from tests.jobs.engines.receiving import RUN, receiving
from tests.jobs.yard import PROJECT, Yard

pytestmark = pytest.mark.heavy  # podman is not everywhere, and takes its time

SECRET = "a-word-nobody-may-read"
IMAGE = Environment(image="localhost/falaj/plain:1")


@pytest.fixture(scope="module")
def podman():
    with podman_of_its_own() as made:
        made.make(IMAGE.image, "ENV PATH=/opt/own:/bin", "ENV FLAVOUR=plain")
        yield made


@pytest.fixture
def engine(tmp_path, podman):
    home = tmp_path / "home"
    home.mkdir()
    (home / "ring.secret").write_text(SECRET)
    return LocalEngine(home / "jobs", Site(zone="here", hidden=(home,), images=("localhost/falaj",)))


def run(engine, script, **changes):
    """How a script ended, and what it wrote."""
    attempt = launched(engine, "sh", "-c", script, **{"environment": IMAGE} | changes)
    end = ended(engine, attempt)
    return end, logged(engine, attempt)


def keeper_of(engine, attempt):
    return folders.read(engine._attempts / attempt / folders.STATUS)["keeper"][0]


def number_of(engine, attempt):
    return int((engine._attempts / attempt / "etc" / "pid").read_text())


def test_a_job_runs_in_its_image_with_its_files_and_variables_and_ends_with_its_code(engine, podman):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("data/words.txt")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"words"))
    script = "cat data/words.txt; echo; echo $FLAVOUR $PATH $TOKEN; echo kept > $FALAJ_OUTPUT/x; cat $FALAJ_OUTPUT/x; exit 7"
    end, log = run(engine, script, source=lambda: iter([packed.getvalue()]), variables={"TOKEN": SECRET})
    assert (end.cause, end.code) == ("failed", 7), log
    assert log.splitlines()[1:] == ["words", f"plain /opt/own:/bin {SECRET}", "kept"]
    assert end.image == podman.say("image", "inspect", "--format={{.Id}}", IMAGE.image)
    assert end.used.cpu_seconds > 0
    assert podman.containers() == []


def test_secrets_are_nowhere_but_inside(engine, podman):
    attempt = launched(engine, "sleep", "60", environment=IMAGE, variables={"TOKEN": SECRET})
    wait_for(lambda: seen(engine, attempt).state == "running")
    told = (
        podman.say("inspect", f"falaj-{attempt}")
        + subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    )
    kept = podman.folder.parent / "kept"
    found = subprocess.run(
        ["grep", "-rlF", SECRET, str(kept), str(engine._attempts)], capture_output=True, text=True, check=False
    )
    engine.stop(attempt, 0)
    assert ended(engine, attempt).cause == "stopped"
    assert SECRET not in told
    assert found.stdout == ""


def test_checkpoints_outlive_a_container_and_outputs_are_kept(engine, podman):
    saves = "cat $FALAJ_CHECKPOINTS/count || echo none; echo 1 > $FALAJ_CHECKPOINTS/count; echo x > $FALAJ_OUTPUT/m"
    with receiving() as platform:
        given = {"checkpoints": ("a" * 32,), "outputs": ("m",), "platform_url": platform.url, "variables": RUN}
        first, log = run(engine, saves, **given)
        assert first.cause == "done", (first, log)
        second, log = run(engine, saves, **given)
    assert second.cause == "done"
    assert log.splitlines()[1:] == ["1", "falaj: kept 1 file (2 bytes) of its outputs"]
    assert platform.files == {"outputs/m": b"x\n"}


def test_several_tasks_run_in_one_container(engine):
    end, log = run(engine, "echo task $RANK of $WORLD_SIZE", seats=(Seat(node="here"), Seat(node="here")))
    assert end.cause == "done"
    assert sorted(log.splitlines()[1:]) == ["task 0 of 2", "task 1 of 2"]


def test_a_job_told_to_stop_may_save_what_it_has_and_one_that_will_not_is_killed(engine, podman):
    saves = launched(
        engine, "sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", environment=IMAGE
    )
    deaf = launched(engine, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done", environment=IMAGE)
    for attempt in (saves, deaf):
        wait_for(lambda attempt=attempt: "ready" in logged(engine, attempt))
    engine.stop(saves, 20_000_000)
    engine.stop(deaf, 300_000)
    assert [ended(engine, attempt).cause for attempt in (saves, deaf)] == ["stopped", "stopped"]
    assert "saved" in logged(engine, saves)
    assert podman.containers() == []


def test_an_image_that_is_not_there_is_named(engine):
    end, _ = run(engine, "true", environment=Environment(image="localhost/falaj/none:1"))
    assert (end.cause, end.started) == ("environment", None)
    assert "localhost/falaj/none:1 is not on this host" in end.words


def test_one_that_cannot_be_pulled_says_why(tmp_path, podman):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", images=("localhost:1",), pulls_images=True))
    end, _ = run(engine, "true", environment=Environment(image="localhost:1/none:1"))
    assert (end.cause, end.started) == ("environment", None)
    assert "cannot be pulled" in end.words


def test_a_tag_that_moves_does_not_change_what_is_recorded(engine, podman):
    name = "localhost/falaj/moves:1"
    first = podman.make(name, files={"word": b"first"})
    end, log = run(engine, "cat /word", environment=Environment(image=name))
    second = podman.make(name, files={"word": b"second"})
    again, later = run(engine, "cat /word", environment=Environment(image=name))
    assert (end.image, log.splitlines()[1]) == (first, "first")
    assert (again.image, later.splitlines()[1]) == (second, "second")


def test_an_image_is_named_by_its_digest_too(engine, podman):
    digest = podman.say("image", "inspect", "--format={{.Digest}}", IMAGE.image)
    end, log = run(engine, "echo here", environment=Environment(image=f"localhost/falaj/plain@{digest}"))
    assert end.cause == "done", (end, log)


# Hostile ones


def test_memory_is_held_wherever_it_is_taken(engine, podman):
    end, log = run(engine, "tail /dev/zero")
    assert end.cause == "memory", (end, log)
    assert "256 MiB of memory" in end.words
    end, log = run(engine, "dd if=/dev/zero of=/dev/shm/x bs=1M count=200; tail /dev/zero")
    assert end.cause == "memory", (end, log)
    assert 0 < end.used.memory_mib_peak <= 256 + 24
    assert podman.containers() == []


def test_processor_time_is_held(engine):
    end, _ = run(engine, "(while :; do :; done) & sleep 2; exit 0", shape=Shape(cpu_milli=200, memory_mib=256))
    assert end.cause == "done"
    assert 0.05 < end.used.cpu_seconds < 1.0  # two seconds of a fifth of a core, and what starting takes


def test_a_fork_bomb_harms_nobody_else(engine, podman):
    beside = launched(engine, "sh", "-c", "sleep 1; echo unharmed", environment=IMAGE)
    end, _ = run(engine, "b() { b | b & }; b; sleep 20", limits=Limits(seconds=6, processes=40))
    assert end.cause in ("timeout", "failed", "memory", "done")
    assert ended(engine, beside).cause == "done"
    assert "unharmed" in logged(engine, beside)
    assert podman.containers() == []


def test_nothing_can_be_written_but_what_is_the_job_s_own(engine):
    places = "/ /bin /etc /falaj /falaj/python /run /dev /sys /proc/sys /sys/fs/cgroup"
    script = f"for place in {places}; do echo x > $place/x && echo wrote $place; done; echo over"
    _, log = run(engine, script)
    assert "over" in log
    assert "wrote" not in log


def test_the_platform_s_home_is_not_there_whatever_an_image_brings_along(engine, podman, tmp_path):
    name = "localhost/falaj/hostile:1"
    home = engine._attempts.parent.parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("json.py", "raise SystemExit('evil')")
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    hostile = {
        "etc/ld.so.preload": b"/bin/evil.so\n",
        "falaj/python/pyvenv.cfg": b"home = /evil/bin\n",
        f"falaj/python/{sys.platlibdir}/python{version}.zip": packed.getvalue(),
        "falaj/evil": b"",
    }
    podman.make(
        name,
        'ENTRYPOINT ["/bin/cat", "/etc/shadow"]',
        "VOLUME /extra",
        "USER 0",
        files=hostile,
    )
    reads = f"cat {home}/ring.secret; ls {home}; ls /proc/1/root{home}; cat /proc/1/environ"
    script = f"{reads}; echo x > /extra/x && echo wrote; id; ls /falaj; echo over"
    end, log = run(engine, script, environment=Environment(image=name))
    assert "over" in log, (end, log)
    assert SECRET not in log
    assert "root:" not in log
    assert "evil" not in log
    assert "wrote" not in log
    assert "uid=0" not in log


def test_a_job_has_no_powers_and_cannot_get_any(engine):
    _, log = run(
        engine, "cat /proc/self/status /proc/self/uid_map; ls -l /proc/1/fd; unshare -U true && echo unshared; echo over"
    )
    assert "over" in log
    lines = dict(line.split(":", 1) for line in log.splitlines() if ":" in line)
    assert all(int(lines[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))
    assert (lines["NoNewPrivs"].strip(), lines["Seccomp"].strip()) == ("1", "2")
    assert "socket:" not in log
    assert "unshared" not in log


def test_nothing_is_reached_but_the_platform_through_the_relay(engine):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the platform at " + self.path.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as platform, socket.create_server(("0.0.0.0", 0)) as other:
        threading.Thread(target=platform.serve_forever, args=(0.02,), daemon=True).start()
        url, port = f"http://127.0.0.1:{platform.server_port}", other.getsockname()[1]
        own = socket.gethostbyname(socket.gethostname())
        others = f"for host in 127.0.0.1 {own} 169.254.169.254; do nc -w 1 $host {port} </dev/null && echo reached; done"
        script = f"wget -q -O - $FALAJ_URL/v1; echo; {others}; cat /proc/net/dev; echo over"
        end, log = run(engine, script, platform_url=url, variables={"FALAJ_URL": url})
        platform.shutdown()
    assert "the platform at /v1" in log, (end, log)
    assert "over" in log
    assert "reached" not in log
    assert [line.split(":")[0].strip() for line in log.splitlines() if ":" in line and "bytes" not in line][-1] == "lo"


def test_a_flood_of_words_is_bounded(engine):
    end, _ = run(engine, "yes", limits=Limits(seconds=2, log_mib=1))
    place = engine._attempts / end.attempt / folders.LOG
    assert end.cause == "timeout"
    assert sum(file.stat().st_size for file in place.iterdir()) < 2 << 20


# Whoever dies


def test_nothing_is_left_of_a_container_whose_keeper_is_killed(engine, podman):
    attempt = launched(engine, "sh", "-c", "sleep 600 & sleep 600", environment=IMAGE)
    wait_for(lambda: seen(engine, attempt).state == "running")
    inside = number_of(engine, attempt)
    os.kill(keeper_of(engine, attempt), signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{inside}").exists())  # before anybody looks
    wait_for(lambda: podman.containers() == [])
    end = ended(engine, attempt)
    assert end.cause == "lost"
    assert end.image


def test_nor_of_one_whose_keeper_is_killed_while_podman_makes_it(engine, podman):
    for pause in (0.1, 0.2, 0.3, 0.4):
        attempt = launched(engine, "sleep", "600", environment=IMAGE)
        wait_for(lambda attempt=attempt: (engine._attempts / attempt / folders.STATUS).exists())
        time.sleep(pause)
        os.kill(keeper_of(engine, attempt), signal.SIGKILL)
        assert ended(engine, attempt).cause == "lost"
    wait_for(lambda: podman.containers() == [])


def test_nor_of_one_that_is_stopped_while_podman_makes_it(engine, podman):
    for pause in (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
        attempt = launched(engine, "sleep", "600", environment=IMAGE)
        wait_for(lambda attempt=attempt: (engine._attempts / attempt / folders.STATUS).exists())
        time.sleep(pause)
        engine.stop(attempt, 0)
        assert ended(engine, attempt).cause == "stopped"
    wait_for(lambda: podman.containers() == [])
    assert podman.say("ps", "--all", "--external", "--quiet") == ""


def test_the_whole_platform_runs_an_image_and_keeps_what_it_was(tmp_path, podman):
    yard = Yard(tmp_path, settings='[jobs]\nimages = ["localhost/falaj"]\n')
    try:
        done = yard.run("sh", "-c", "echo $FLAVOUR; wget -q -O - $FALAJ_URL/readyz", image=IMAGE.image)
        assert done.state == "done", yard.log(done.id)
        assert "plain" in yard.log(done.id)
        told = yard.call(READ_EVENTS, ReadEvents(project=PROJECT, job=done.id)).items
        identity = podman.say("image", "inspect", "--format={{.Id}}", IMAGE.image)
        assert f"Try 1 runs in the image sha256:{identity}." in [event.words for event in told]
        with pytest.raises(Invalid, match="images may be from localhost/falaj here"):
            yard.submit("true", image="docker.io/library/python:3.11")
    finally:
        yard.close()
    assert podman.containers() == []


def test_a_container_goes_on_under_another_engine(engine, podman, tmp_path):
    attempt = launched(engine, "sh", "-c", "sleep 1.5; echo done", environment=IMAGE)
    wait_for(lambda: seen(engine, attempt).state == "running")
    after = LocalEngine(tmp_path / "home" / "jobs", Site(zone="here"))  # which runs no images any more
    assert seen(after, attempt).state == "running"
    assert ended(after, attempt).cause == "done"
    assert podman.containers() == []


def reap(process: int) -> None:
    """Of one whose parent is gone: that is for init to do, or here for this process, which takes in orphans."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)


@pytest.mark.parametrize("who", ["podman", "the first process", "conmon"])
def test_an_attempt_whose_container_is_killed_from_outside_is_lost_and_leaves_nothing(engine, podman, who):
    attempt = launched(engine, "sleep", "600", environment=IMAGE)
    wait_for(lambda: seen(engine, attempt).state == "running")
    first = number_of(engine, attempt)
    parent = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
    keeper = keeper_of(engine, attempt)
    runs = int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text())
    os.kill({"podman": runs, "the first process": first, "conmon": parent}[who], signal.SIGKILL)
    if who == "conmon":
        reap(parent)
    end = ended(engine, attempt)
    assert end.cause == "lost", end
    wait_for(lambda: not psutil.pid_exists(first) or psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    reap(first)
    wait_for(lambda: podman.containers() == [])
