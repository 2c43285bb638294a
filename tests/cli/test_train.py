"""`falaj train`: scripts, notebooks and functions on a real platform, and what is refused before anything is sent."""

import json
import re
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.client.http import Client
from falaj.client.trainings import train
from tests.cli.conftest import Falaj, Running
from tests.servers.processes import NO_TLS

SMALL = ("--cpus", "0.1", "--memory", "128MiB", "--retries", "0", "--project", "default")
# It saves where jobs keep checkpoints, is killed once, and goes on.
COUNTS = """
import os, pathlib, signal, sys
from helper import NAME
place = pathlib.Path(os.environ["FALAJ_CHECKPOINTS"]) / "count"
count = int(place.read_text()) if place.exists() else 0
print(f"try {os.environ['FALAJ_TRY']} of {NAME} begins at {count}", flush=True)
while count < int(sys.argv[2]):
    count += 1
    place.write_text(str(count))
    if count == 3 and os.environ["FALAJ_TRY"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
print(f"counted to {count}")
"""

TRACED = """
import pathlib
from falaj.training.profiling.names import TRACE
from falaj.training.telling import run_from_environment
run, file = run_from_environment(), pathlib.Path("steps")
file.write_text("steps")
run.file(file, TRACE)
run.close()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("scripts")
    (place / "count.py").write_text(COUNTS)
    (place / "helper.py").write_text("NAME = 'counting'")
    (place / "traced.py").write_text(TRACED)
    (place / "broken.py").write_text("x = 1\nfor x in :\n")
    (place / "classic.py").write_text("from sklearn.svm import SVC")
    (place / "ddp.py").write_text("import torch.distributed")
    (place / "_ddp (copy).py").write_text("import torch.distributed")
    cells = [{"cell_type": "code", "source": text} for text in ("%pip list\nimport helper", "print(helper.NAME)", "1 / 0")]
    (place / "notes.ipynb").write_text(json.dumps({"cells": cells}))
    return place


def test_a_script_is_read_and_sent(platform: Running, folder: Path):
    written, said = platform.both("train", str(folder / "count.py"), *SMALL, "--", "--to", "2")
    assert said.startswith("Launcher single: nothing in count.py says otherwise.\nSent 8 files of ")
    assert re.match(r"count \([0-9a-f]{8}\) in queue default: starts now on ", written)
    assert written.splitlines()[-2:] == ["try 1 of counting begins at 0", "counted to 2"]


@pytest.mark.heavy
def test_a_script_that_is_killed_goes_on_where_it_was(platform: Running, folder: Path):
    again = (*SMALL[:-4], "--retries", "1", *SMALL[-2:])
    written, said = platform.both("train", str(folder / "count.py"), *again, "--", "--to", "5")
    assert re.search(r"^Try 1 .*Tried again in 10 s.* Its last line: try 1 of counting begins at 0$", said, re.MULTILINE)
    assert [line for line in written.splitlines() if "falaj:" not in line][1:] == [
        "try 1 of counting begins at 0",
        "try 2 of counting begins at 3",
        "counted to 5",
    ]


def test_a_job_sent_again_says_that_it_goes_on_from_its_checkpoints(platform: Running, folder: Path):
    platform("train", str(folder / "count.py"), *SMALL, "--", "--to", "3", status=1)
    killed = platform.json("job", "list", "--project", "default")["items"][0]["id"]
    written, said = platform.both("job", "retry", killed, "--project", "default")
    assert f"It goes on from what count ({killed[-8:]}) saved in its checkpoints" in said
    assert written.splitlines()[-2:] == ["try 1 of counting begins at 3", "counted to 3"]


def test_outputs_that_cannot_be_are_refused_before_anything_is_sent(platform: Running, folder: Path):
    _, said = platform.both("train", str(folder / "count.py"), "--writes", "../a", *SMALL, status=2)
    assert "'../a' does not do for spec.outputs.0: it must be the name of a file or a folder below $FALAJ_OUTPUT" in said
    assert "Sent" not in said


def test_where_there_will_be_no_trace_it_is_said_before_and_after(platform: Running, folder: Path):
    profiled = ("train", str(folder / "count.py"), "--profile", *SMALL)
    _, said = platform.both(*profiled, "--dry-run")
    assert "--profile keeps no trace: it would be a file of the run, and without --experiment there is none." in said
    assert (
        "--profile does nothing here: a Session or trainer_for of falaj.training records the trace, and count.py uses" in said
    )
    _, said = platform.both(*profiled, "--experiment", "counts", "--", "--to", "1")
    assert "keeps no trace" not in said
    assert said.splitlines()[-1].startswith("No trace is with its run: ")


def test_a_trace_that_was_kept_is_named(platform: Running, folder: Path):
    _, said = platform.both("train", str(folder / "traced.py"), "--profile", "--experiment", "counts", *SMALL)
    *_, run, name = said.splitlines()[-1].split()
    assert said.splitlines()[-1] == f"Its trace: falaj artifact get {run} {name}"
    assert "--profile" not in said
    platform("artifact", "get", run, name, str(folder / "trace"), "--project", "default")
    assert (folder / "trace").read_text() == "steps"


def test_cells_of_a_notebook_are_sent(platform: Running, folder: Path):
    written, said = platform.both("train", str(folder / "notes.ipynb"), "--cell", "1", "--cell", "2", *SMALL)
    assert written.splitlines()[-1] == "counting"
    assert "2 code cells of notes.ipynb, without 1 lines of magic." in said


def fit(name, times=1):
    import os

    print("fitted", name * times, os.environ["FALAJ_TRY"])


def test_a_function_is_sent(platform: Running):
    token = json.loads((platform.home / "credentials.json").read_text())["token"]
    with Client(platform.url, token, verify=NO_TLS) as client:
        made = train(fit, "a", named={"times": 3}, cpus=0.1, memory_mib=128, project="default", client=client, retries=0)
        assert made.job.spec.checkpoints
    followed = platform("job", "logs", made.job.id, "--follow", "--project", "default")
    assert followed.splitlines()[-1] == "fitted aaa 1"


def test_a_function_needs_a_platform_and_a_project(monkeypatch: pytest.MonkeyPatch):
    for name in ("FALAJ_URL", "FALAJ_TOKEN", "FALAJ_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Invalid, match="No project was named"):
        train(fit, "a")
    with pytest.raises(Invalid, match="Set FALAJ_URL and FALAJ_TOKEN"):
        train(fit, "a", project="default")


def test_a_dry_run_says_how_and_where_and_submits_nothing(platform: Running, folder: Path):
    before = platform.json("job", "list", "--project", "default")
    written, said = platform.both("train", str(folder / "_ddp (copy).py"), "--dry-run", "--processes", "2", *SMALL)
    assert "Launcher torchrun: _ddp (copy).py uses torch.distributed (_ddp (copy).py, line 1)." in said
    assert written.startswith("The job in queue default: starts now on ")
    assert platform.json("job", "list", "--project", "default") == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("broken.py",), "broken.py cannot be run: line 2: invalid syntax. Nothing was sent."),
        (("classic.py", "--nodes", "2"), "2 nodes would each train the same model"),
        (("ddp.py", "--nodes", "two"), "'two' is no number of nodes; write 2, or 2:4"),
        (("ddp.py", "--nodes", "0"), "--nodes 0: a training has at least one node."),
        (("ddp.py", "--nodes", "4:2"), "--nodes 4:2: at least 4 and at most 2 cannot be; write 2:4."),
        ((".",), "is a folder; name a script or a notebook, such as "),
        (("ddp.py", "--launcher", "slurm"), "There is no launcher 'slurm'"),
        (("ddp.py", "--cell", "1"), "--cell is for notebooks"),
        (("nowhere.py",), "nowhere.py cannot be read: No such file or directory"),
        (("notes.ipynb", "--cell", "9"), "notes.ipynb has 3 code cells, and no cell 9"),
        (("ddp.py", "--source", "/usr/bin"), "is not within /usr/bin, which is what is sent"),
        (("ddp.py", "--print", "trainjob"), "name the image that has ddp.py with --image"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_without_a_platform(
    falaj: Falaj, folder: Path, arguments: tuple[str, ...], words: str
):
    assert words in falaj.fails("train", str(folder / arguments[0]), *arguments[1:], status=2)


def test_a_manifest_is_written_without_a_platform(falaj: Falaj, folder: Path):
    made = json.loads(falaj("train", str(folder / "ddp.py"), "--nodes", "2", "--image", "r/t:1", "--print", "pytorchjob"))
    assert made["kind"] == "PyTorchJob"
    assert made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 1
