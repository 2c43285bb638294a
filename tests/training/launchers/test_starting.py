"""The starter as it runs in a job: a bare interpreter, the folder that travels, and scripts that need no framework."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from falaj.training.launchers.starting import meeting, torchrun
from falaj.training.launchers.starting.failures import Failed
from falaj.training.launchers.starting.seats import Seat, Told, seat_of, secret_for
from falaj.training.launchers.travelling import companions
from tests.servers.processes import free_ports

BARE = str(Path(sys.base_prefix) / "bin" / "python3")  # it has nothing of Falaj's
TOKEN = {"FALAJ_TOKEN": "only the tasks know"}
ROOT = Path(__file__).parents[3]


class Job:
    """A job's source, and its tasks."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name, content in companions().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)

    def start(self, script: str, launcher: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        (self.place / "script.py").write_text(script)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "FALAJ_TOKEN"))}
        return subprocess.Popen(
            [BARE, ".falaj/start.py", launcher, "--", "script.py", *arguments],
            cwd=self.place,
            env=kept | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, launcher: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(script, launcher, *arguments, **variables)
        written, said = process.communicate(timeout=60)
        return process.returncode, written, said


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("job"))


def test_a_script_runs_with_its_arguments_and_its_code_passes_through(job: Job):
    script = "import sys; from falaj.training.checkpoints import Preemption; print(sys.argv[1:], Preemption); sys.exit(7)"
    code, written, said = job.run(script, "single", "--rate", "0.1", "--", "x")
    assert code == 7
    assert written.startswith("['--rate', '0.1', '--', 'x'] <class 'falaj.training.checkpoints.preemption.Preemption'>")
    assert said == "falaj: single: script.py --rate 0.1 -- x\n"


def test_all_that_travels_is_understood_by_a_bare_interpreter(job: Job):
    script = """
import ast, pathlib
files = list(pathlib.Path(".falaj").rglob("*.py"))
for file in files:
    ast.parse(file.read_text())
print(len(files) > 50)
"""
    assert job.run(script, "single")[1] == "True\n"


def test_a_missing_framework_ends_with_a_code_that_is_not_tried_again(job: Job):
    code, _, said = job.run("", "mpi", PATH="/nowhere", **TOKEN)
    assert (code, said.splitlines()[-1][:35]) == (127, "falaj: there is no mpirun in the jo")
    code, _, said = job.run("", "ray", **TOKEN)
    assert code == 127
    assert "name `ray[train]` in its lock file" in said
    code, _, said = job.run("", "spark", PATH="/nowhere", **TOKEN)
    assert code == 127
    assert "Spark needs Java" in said


@pytest.mark.parametrize("launcher", ["tensorflow", "ray", "torchrun", "mpi"])
def test_what_does_not_encrypt_is_refused_on_a_network_that_nobody_called_private(job: Job, launcher: str):
    there = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.5", "GLOO_DEVICE_TRANSPORT": "TCP_TLS"}
    code, _, said = job.run("", launcher, **TOKEN, **there)
    assert code == 126
    assert "does not encrypt what its processes say to each other" in said


def test_tasks_of_tensorflow_learn_of_each_other(job: Job):
    (port,) = free_ports(1)
    there = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    tasks = [job.start("import os; print(os.environ['TF_CONFIG'])", "tensorflow", RANK=rank, **there, **TOKEN) for rank in "01"]
    told = [json.loads(task.communicate(timeout=60)[0]) for task in tasks]
    assert [one["task"] for one in told] == [{"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    assert told[0]["cluster"] == told[1]["cluster"]
    assert len(set(told[0]["cluster"]["worker"])) == 2


def test_a_task_that_still_waits_for_the_others_ends_at_once_when_told(job: Job):
    (port,) = free_ports(1)
    (job.place / "bin").mkdir()
    (job.place / "bin" / "mpirun").write_text("#!/bin/sh\necho HYDRA build details:\n")
    (job.place / "bin" / "mpirun").chmod(0o755)
    there = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with socket.create_server(("127.0.0.1", port)) as door:
        task = job.start("", "mpi", PATH=f"{job.place}/bin:/usr/bin:/bin", **there, **TOKEN)
        guest, _ = door.accept()
        task.terminate()
        task.communicate(timeout=60)
        guest.close()
    assert task.returncode == 143


HOLDS = """
import sys
sys.path.insert(0, {root!r})
from falaj.training.launchers.starting.children import Children
with Children() as children:
    needed = [children.start([sys.executable, "-c", "import time; time.sleep({needed})"], hears=False)]
    code = children.end_of(children.start([sys.executable, "-uc", {child!r}]), *needed)
sys.exit(code)
"""


def held(child: str, needed: float = 60) -> "subprocess.Popen[str]":
    program = HOLDS.format(root=str(ROOT), child=child, needed=needed)
    return subprocess.Popen(
        [BARE, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_the_signal_of_a_whole_task_is_passed_on_exactly_once():
    process = held(
        "import signal, time, sys\n"
        "heard = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: heard.append(1))\n"
        "print('ready')\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "print(len(heard))\n"
        "sys.exit(3)"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGTERM)  # as jobs do
    os.killpg(process.pid, signal.SIGTERM)
    written, said = process.communicate(timeout=60)
    assert (written, said, process.returncode) == ("1\n", "", 143)


def test_what_a_child_leaves_behind_goes_with_the_starter():
    left = "import subprocess, sys; p = subprocess.Popen(['sleep', '300'], start_new_session=True); print(p.pid); sys.exit(0)"
    process = held(left)
    written, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert not Path("/proc", written.strip()).exists()


def test_a_child_that_was_killed_is_told_as_shells_do():
    process = held("import os; os.kill(os.getpid(), 9)")
    process.communicate(timeout=60)
    assert process.returncode == 137


def test_a_companion_that_ends_early_ends_the_training_with_a_word():
    process = held("import time; time.sleep(60)", needed=0.1)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ended with 0, and the training needs it." in said


# Seats and meetings


def test_a_seat_is_what_jobs_say_it_is():
    assert seat_of({}) == Seat()
    there = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.5", "MASTER_PORT": "3000"}
    assert seat_of(there) == Seat(rank=1, size=2, address="10.0.0.5", port=3000, is_spread=True)
    assert seat_of(there | {"GLOO_DEVICE_TRANSPORT": "TCP_TLS"}).is_open
    assert not seat_of(there | {"MASTER_ADDR": "127.0.0.1", "GLOO_DEVICE_TRANSPORT": "TCP_TLS"}).is_spread


def test_secrets_differ_by_try_and_purpose():
    found = {secret_for(purpose, {"FALAJ_TOKEN": token}) for purpose in ("ray", "spark") for token in ("a", "b")}
    assert len(found) == 4
    with pytest.raises(Failed, match="FALAJ_TOKEN is not set"):
        secret_for("ray", {})


def test_torchrun_is_told_where_the_others_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FALAJ_JOB", "5c6d7e")
    monkeypatch.setenv("FALAJ_TRY", "2")
    command = torchrun.command(Seat(rank=0, size=2), Told(processes=4, restarts=3, script=("train.py", "--x")))
    assert {"--nnodes=2", "--nproc-per-node=4", "--max-restarts=3", "--rdzv-conf=is_host=1", "--rdzv-id=5c6d7e-2"} <= {*command}
    assert command[-2:] == ["train.py", "--x"]


def together(*calls: Callable[[], Any]) -> list[Any]:
    found: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            found[number] = calls[number]()
        except Failed as error:
            found[number] = str(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_all_hear_what_all_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FALAJ_TOKEN", "shared")
    (port,) = free_ports(1)
    heard = together(*(lambda rank=rank: meeting.meet(Seat(rank=rank, size=3, port=port), {"r": rank}) for rank in (2, 1, 0)))
    assert heard == [[("127.0.0.1", {"r": rank}) for rank in range(3)]] * 3


@pytest.mark.parametrize(
    "words",
    [
        json.dumps({"rank": 1, "word": "evil", "proof": "0" * 64}),
        "[]",
        "7",
        "[" * 50_000,
        '{"rank": [], "word": 1, "proof": "é"}',
    ],
    ids=["forged", "list", "number", "deep", "odd"],
)
def test_strangers_are_neither_counted_nor_waited_for(monkeypatch: pytest.MonkeyPatch, words: str):
    monkeypatch.setenv("FALAJ_TOKEN", "shared")
    (port,) = free_ports(1)

    def stranger() -> str:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as way:
                    challenge = way.makefile("rb").readline()
                    way.sendall(words.encode() + b"\n")
                    return "sent" if challenge else ""
            except ConnectionRefusedError:
                continue

    def guest() -> Any:
        came.wait()
        return meeting.meet(Seat(rank=1, size=2, port=port), "good")

    came = threading.Event()
    host = lambda: meeting.meet(Seat(rank=0, size=2, port=port), "host")  # noqa: E731
    sent = lambda: (stranger(), came.set())[0]  # noqa: E731
    heard = together(host, sent, guest)
    assert heard == [[("127.0.0.1", "host"), ("127.0.0.1", "good")], "sent", [("127.0.0.1", "host"), ("127.0.0.1", "good")]]


def test_guests_that_say_nothing_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch):
    """Each may take its time, far longer than the others have."""
    monkeypatch.setenv("FALAJ_TOKEN", "shared")
    monkeypatch.setattr(meeting, "_MANNERS", 60.0)
    monkeypatch.setattr(meeting, "_PATIENCE", 30.0)
    (port,) = free_ports(1)
    silent: list[socket.socket] = []

    def guest() -> Any:
        while len(silent) < 5:
            with contextlib.suppress(ConnectionRefusedError):
                silent.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        return meeting.meet(Seat(rank=1, size=2, port=port), "good")

    heard = together(lambda: meeting.meet(Seat(rank=0, size=2, port=port), "host"), guest)
    assert heard == [[("127.0.0.1", "host"), ("127.0.0.1", "good")]] * 2
    for one in silent:
        one.close()


@pytest.mark.parametrize("words", [b"no json\n", b"7\n[]\n", b'7\n{"proof": "0", "all": []}\n', b""])
def test_whoever_sits_in_the_first_tasks_place_is_left_and_it_is_sought_again(monkeypatch: pytest.MonkeyPatch, words: bytes):
    monkeypatch.setenv("FALAJ_TOKEN", "shared")
    (port,) = free_ports(1)

    def host() -> Any:
        with socket.create_server(("127.0.0.1", port)) as door:
            way, _ = door.accept()
            with way:
                way.sendall(words)
                way.makefile("rb").readline() if words.startswith(b"7") else None
        return meeting.meet(Seat(rank=0, size=2, port=port), "host")

    heard = together(host, lambda: meeting.meet(Seat(rank=1, size=2, port=port), "good"))
    assert heard == [[("127.0.0.1", "host"), ("127.0.0.1", "good")]] * 2
