"""Hostile models, loaded for real inside real walls: each reaches nothing, ends in time, and is told about."""

import io
import json
import socket
import sys
import tarfile
import time
from pathlib import Path

import psutil
import pytest

from falaj.base.errors import Conflict, Misconfigured
from falaj.runtimes import bubblewrap
from falaj.runtimes.sandbox import Sandbox
from falaj.runtimes.walls import Bounds
from tests.runtimes.hostile import model_files, pickled, sent

BOUNDS = Bounds(seconds=60, memory_bytes=1 << 30, output_bytes=1 << 20, processes=61)


@pytest.fixture(params=["as a user of its own", "in a user namespace"])
def either_way(request, monkeypatch):
    """As root both can be had; as anybody else the second is all there is."""
    if request.param == "in a user namespace":
        monkeypatch.setattr(bubblewrap, "own_user", lambda first: 0)


def convert(code, bounds=BOUNDS):
    """What the conversion reports of a model that runs `code`."""
    told = Sandbox().run("convert", sent(model_files(pickled(code))), bounds)
    with tarfile.open(fileobj=io.BytesIO(told)) as tar:
        return json.load(tar.extractfile("report.json"))


def found_by(code, bounds=BOUNDS):
    """What `code` puts into `found`."""
    report = convert(f"import json, os\nfound = []\n{code}\nraise RuntimeError(json.dumps(found))", bounds)
    return json.loads(report["error"].removeprefix("RuntimeError: "))


def nobody_is_left():
    """Processes that run under these bounds, which nobody else has."""
    mark, deadline = f'"processes": {BOUNDS.processes}', time.monotonic() + 10
    while any(mark in " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline, "it outlived its sandbox"
        time.sleep(0.05)
    return True


def test_one_that_is_ended_while_its_walls_are_built_leaves_nothing(either_way):
    sandbox = Sandbox()
    for number in range(200):  # at any moment of the first milliseconds
        with sandbox.start("convert", BOUNDS):
            time.sleep(number * 0.00005)
    assert nobody_is_left()


def test_there_is_no_network(either_way):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        code = f"""
import socket
for address in (("127.0.0.1", {server.getsockname()[1]}), ("1.1.1.1", 53)):
    try:
        socket.create_connection(address, timeout=2)
        found.append(address)
    except OSError:
        pass
found += [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
"""
        assert found_by(code) == ["lo"]
        with pytest.raises(TimeoutError):
            server.accept()


def test_home_keys_environment_and_other_processes_are_not_there(either_way, tmp_path, monkeypatch):
    monkeypatch.setenv("FALAJ_SECRET", "hush-hush")
    key = tmp_path / "home.keys" / "ring"
    key.parent.mkdir()
    key.write_text("hush-hush")
    tmp_path.chmod(0o777)
    places = [str(key), str(tmp_path), str(Path.cwd() / "pyproject.toml"), "/etc/passwd", "/home", "/sys", "/run", "/var"]
    code = f"""
for place in {places!r}:
    if os.path.exists(place):
        found.append(place)
found += [name for name in os.environ if "SECRET" in name]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"hush" in open(f"/proc/{{pid}}/environ", "rb").read():
            found.append(pid)
    except OSError:
        pass
found.append(len([pid for pid in os.listdir("/proc") if pid.isdigit()]))
"""
    assert found_by(code) == [2]  # itself, and the first process of its own little world


def test_it_is_nobody_and_has_no_rights(either_way):
    code = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
found = [os.getuid() == 0, int(status["CapEff"], 16), int(status["CapPrm"], 16), int(status["NoNewPrivs"]), len(os.getgroups())]
"""
    root, effective, permitted, no_new, groups = found_by(code)
    assert (root, effective, permitted, no_new) == (False, 0, 0, 1)
    assert groups <= 1


def test_nothing_can_be_written_but_a_little_memory(either_way, tmp_path):
    tmp_path.chmod(0o777)
    code = f"""
for place in ("/", "/usr", "/dev", "/programs", "/etc", {sys.prefix!r}, {str(tmp_path)!r}):
    try:
        open(place + "/mine", "w")
        found.append(place)
    except OSError:
        pass
with open("/tmp/big", "wb") as file:
    try:
        while file.tell() < {2 * BOUNDS.memory_bytes}:
            file.write(bytes(1 << 24))
    except OSError as error:
        found.append(error.strerror)
"""
    assert found_by(code) == ["No space left on device"]
    assert list(tmp_path.iterdir()) == []


def test_only_so_many_processes_can_be_started():
    code = """
import time
try:
    while len(found) < 1000:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        found.append(child)
except OSError:
    pass
"""
    assert 10 < len(found_by(code)) < BOUNDS.processes
    assert nobody_is_left()


def test_a_fork_bomb_ends_with_its_time(monkeypatch):
    with pytest.raises(Conflict, match="more than 2 seconds and was ended"):
        convert("import os\nwhile True:\n try: os.fork()\n except OSError: pass", Bounds(seconds=2, processes=BOUNDS.processes))
    assert nobody_is_left()


def test_a_process_that_takes_too_much_memory_is_refused_it():
    assert convert("bytearray(2 << 30)")["error"].startswith("MemoryError")


def test_processes_that_take_too_much_memory_together_are_ended():
    code = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        kept = b"x" * (400 << 20)
        time.sleep(60)
time.sleep(60)
"""
    with pytest.raises(Conflict, match="more than 1024 MiB of memory and was ended"):
        convert(code)
    assert nobody_is_left()


def test_one_that_sleeps_for_ever_is_ended():
    with pytest.raises(Conflict, match="more than 1 seconds and was ended"):
        convert("import time; time.sleep(1000)", Bounds(seconds=1, processes=BOUNDS.processes))
    assert nobody_is_left()


def test_one_that_leaves_children_behind_does_not_keep_the_walls_standing():
    started = time.monotonic()
    assert found_by("import time\nif os.fork() == 0: time.sleep(50)") == []
    assert time.monotonic() - started < 30
    assert nobody_is_left()


def test_what_it_prints_does_not_get_among_the_answer():
    code = "import os\nprint('x' * 100000, flush=True)\nos.write(1, b'report.json' * 1000)\nraise ValueError('still whole')"
    assert convert(code) == {"error": "ValueError: still whole"}


def test_one_that_writes_without_end_is_ended():
    code = """
import os
for pipe in range(3, 64):
    try:
        while os.write(pipe, bytes(1 << 16)):
            pass
    except OSError:
        pass
"""
    with pytest.raises(Conflict, match="wrote more than 1 MiB and was ended"):
        convert(code)


def test_it_can_kill_nobody_but_itself(either_way):
    code = """
import signal
for pid in (1, os.getppid(), -1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""
    assert found_by(code) == []


def test_its_last_words_are_told_when_it_dies():
    with pytest.raises(Conflict, match=r"ended with 3\. farewell"):
        convert("import os, sys\nprint('farewell', file=sys.stderr, flush=True)\nos._exit(3)")
    with pytest.raises(Conflict, match="was killed"):
        convert("import os\nos.kill(os.getpid(), 9)")


def test_the_sandbox_ends_with_whoever_started_it(tmp_path):
    """As when the platform is killed while it converts."""
    script = "import sys; from falaj.runtimes.sandbox import Sandbox; from falaj.runtimes.walls import Bounds\n"
    script += f"Sandbox().run('convert', iter(lambda: b'', None), Bounds(processes={BOUNDS.processes}))"
    process = psutil.Popen([sys.executable, "-c", script])
    while len(process.children(recursive=True)) < 2:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert nobody_is_left()


def test_without_bubblewrap_nothing_is_run(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misconfigured, match="apt-get install bubblewrap"):
        convert("")


def test_an_interpreter_that_is_none_is_named():
    with pytest.raises(Misconfigured, match="no-python is no Python that can be run"):
        Sandbox("/no-python").run("convert", (), BOUNDS)
