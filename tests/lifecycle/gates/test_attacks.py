"""Whoever would have a version pass what it does not: forged figures, weaker gates, and evidence of something else."""

import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations.jobs import SUBMIT_JOB, Spec, Submit
from falaj.lifecycle.doing import PROGRAM as STEPS
from falaj.lifecycle.gates.analysis import digest_of
from falaj.lifecycle.gates.definitions import ANALYSIS
from falaj.lifecycle.gates.planning import PROGRAM
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import Gate, OneRun, ReadGateFile, Require, Requirement, Sighting, TellGate, Told
from falaj.registry.operations.evidence import JUDGE_VERSION
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.models import CREATE_LOGGED_MODEL, CreateLoggedModel
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from falaj.training.launchers.travelling import companions
from tests.lifecycle.gates.hall import ASKED, CSV, MEASURED, MODEL, WHOLE, Hall, put_rows
from tests.lifecycle.playing import PROJECT, Stage

FINE = Told(rows=100, training_rows=100, sightings=(Sighting(check="leakage.duplicates", severity="fine", sentence="None."),))
CODE = Gate(name="code", kind="static")
CALLING = b"import os, subprocess\nsubprocess.call(os.environ['A'], shell=True)\n"


def archive(*names: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        for name in names:
            made.writestr(name, "")
    return written.getvalue()


@pytest.fixture(scope="module")
def hall(small: Stage) -> Hall:
    made = Hall(small)
    put_rows(made, "known", CSV)
    put_rows(made, "later", CSV.replace(b"3,0", b"7,1"))
    return made


@pytest.fixture(scope="module")
def member(hall: Hall) -> str:
    """Who may write all there is to write, and deploy."""
    return hall.stage.person("mallory", Role.ENGINEER)


def tell(hall: Hall, token: str, run: str, job: str) -> Any:
    return hall.call(declared.TELL_GATE, TellGate(project=PROJECT, run=run, job=job, told=FINE), token)


def test_nobody_but_its_own_job_tells_what_a_gate_measured(hall: Hall, member: str) -> None:
    hall.apply(MEASURED)
    asked = hall.run(1, token=member)["apart"]
    assert asked.state == "running"
    for token in (member, hall.stage.owner):
        with pytest.raises(Forbidden, match="own program"):
            tell(hall, token, asked.id, asked.job)
    # A job of one's own that looks like it, by its command and even by what it brings along.
    spec = Spec(command=(*PROGRAM, asked.id), permissions=(declared.TELL.name,))
    own = hall.call(SUBMIT_JOB, Submit(project=PROJECT, spec=spec), member).job
    with pytest.raises(Forbidden, match="own program"):
        tell(hall, member, asked.id, own.id)
    assert hall.results(1)["apart"].state == "running"
    assert hall.evidence(1, "apart") == ()
    hall.call_off(asked.job)
    hall.settle()
    assert hall.results(1)["apart"].state == "failed"


def test_no_call_writes_evidence_down(hall: Hall, member: str) -> None:
    offered = {operation.name for operation in hall.stage.platform.dispatcher.operations}
    assert JUDGE_VERSION.name not in offered


def test_only_operators_define_gates_and_say_what_is_required(hall: Hall, member: str) -> None:
    hall.apply(WHOLE, ASKED, require=(Requirement(alias="champion", gates=("whole",)),))
    loose = Gate(name="whole", kind="command", command=("true",))
    with pytest.raises(Forbidden):
        hall.apply(loose, token=member)
    with pytest.raises(Forbidden):
        hall.call(declared.REQUIRE_GATES, Require(project=PROJECT, alias="champion"), member)
    with pytest.raises(Forbidden):
        hall.send(declared.KNOW_PACKAGES, declared.KnowPackages(project=PROJECT, about="advisory"), b"[]", member)
    operator = hall.stage.person("olga", Role.OPERATOR)
    assert len(hall.apply(WHOLE, ASKED, token=operator).items) == 2
    with pytest.raises(Forbidden):  # who defines gates does not run or promote by that
        hall.run(1, token=operator)
    with pytest.raises(Forbidden):
        hall.promote(1, operator)


def test_evidence_under_a_weaker_gate_is_none_under_the_present_one(hall: Hall, member: str) -> None:
    strict = Gate(name="proven", kind="certificate", max_drop=0.001)
    hall.apply(strict, WHOLE, require=(Requirement(alias="champion", gates=("proven",)),))
    hall.apply(Gate(name="proven", kind="signature"), WHOLE)
    assert hall.run(1, "proven", token=member)["proven"].state == "passed"
    hall.apply(strict, WHOLE, require=(Requirement(alias="champion", gates=("proven",)),))
    with pytest.raises(Forbidden, match="proven was not run as it is defined now"):
        hall.promote(1, member)
    assert hall.run(1, "proven", token=member)["proven"].state == "failed"
    with pytest.raises(Forbidden, match="proven was not passed"):
        hall.promote(1, member)


def test_evidence_of_another_version_helps_none(hall: Hall, member: str) -> None:
    hall.apply(WHOLE, require=(Requirement(alias="champion", gates=("whole",)),))
    hall.run(1, "whole", token=member)
    with pytest.raises(Forbidden, match="whole was not run"):
        hall.promote(2, member)


def test_another_project_neither_sees_nor_runs_nor_tells_anything(hall: Hall) -> None:
    hall.apply(MEASURED)
    asked = hall.run(1)["apart"]
    hall.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    asks: tuple[tuple[Any, Any], ...] = (
        (OneRun(project="other", run=asked.id), declared.READ_TASK),
        (ReadGateFile(project="other", run=asked.id, file="model.onnx"), declared.READ_GATE_FILE),
        (TellGate(project="other", run=asked.id, job=asked.job, told=FINE), declared.TELL_GATE),
    )
    for request, operation in asks:
        with pytest.raises(NotFound):
            hall.call(operation, request)
    hall.call_off(asked.job)
    hall.settle()


def test_a_narrow_token_does_not_reach_further_through_a_gate(hall: Hall, member: str) -> None:
    """The job that a gate needs has permissions: whoever lacks them cannot have it submitted."""
    hall.apply(MEASURED)
    narrow = hall.call(CREATE_TOKEN, CreateToken(label="ci", scopes=("gate.run", "gate.read")), member).token
    with pytest.raises(Forbidden, match=r"job\.submit|dataset\.read|token\.scope"):
        hall.run(1, token=narrow)
    assert all(one.state != "running" for one in hall.results(1).values())


def test_a_gate_that_is_not_defined_cannot_be_run_or_required(hall: Hall) -> None:
    hall.apply(WHOLE)
    with pytest.raises(Invalid, match="There is no gate 'quality'"):
        hall.run(1, "quality")
    with pytest.raises(Invalid, match="There is no gate 'quality'"):
        hall.call(declared.REQUIRE_GATES, Require(project=PROJECT, alias="champion", gates=("quality",)))


def analysed(folder: Path, files: Mapping[str, bytes], *programs: str) -> subprocess.CompletedProcess[str]:
    """As the job of the gate does it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    arguments = (*ANALYSIS[1:], digest_of(companions()), *programs)
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("called.py", CALLING, "called.py:2: "),
        ("unread.py", b"def broken(:\n", "unread.py: cannot be read"),
        ("compiled.pyc", b"", "compiled.pyc: is code"),
        ("deep/CVS/train.py", CALLING, "deep/CVS/train.py:2: "),
        ("a.git/train.py", CALLING, "a.git/train.py:2: "),
        ("x.tox.py", CALLING, "x.tox.py:2: "),
        ("train.PY", b"print(1)\n", "train.PY: is code"),
        ("train.sh", b"true\n", "train.sh: is code"),
        ("train", b"#!/bin/sh\ntrue\n", "train: is code"),
        ("lib", b"\x7fELF", "lib: is code"),
        ("rows.npz", archive("__main__.py"), "rows.npz: is code"),
        ("lib.whl", archive("lib/__init__.py"), "lib.whl: is code"),
        (".falaj/start.py", CALLING, ".falaj/start.py:2: "),
    ],
)
def test_what_cannot_be_analysed_has_not_passed(tmp_path: Path, file: str, content: bytes, says: str) -> None:
    done = analysed(tmp_path, {"other.py": b"x = 1\n", file: content})
    assert done.returncode == 1, done.stderr
    assert says in done.stdout


@pytest.mark.parametrize(
    ("program", "passes"),
    [
        ("train.py", True),
        ("./train.py", True),
        ("-m train", True),
        ("-m lib.steps", True),
        ("lib", True),
        ("train.txt", False),
        ("/usr/lib/train.py", False),
        ("-m elsewhere", False),
        ("", False),
    ],
)
def test_what_was_run_has_to_be_python_of_the_source(tmp_path: Path, program: str, passes: bool) -> None:
    files = {"train.py": b"x = 1\n", "train.txt": b"x = 1\n", "lib/__main__.py": b"x = 1\n", "lib/steps.py": b"x = 1\n"}
    done = analysed(tmp_path, files, program)
    assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
    assert ("is no Python file of the source" in done.stdout) is not passes


def test_a_source_without_python_has_not_passed_and_rows_in_an_archive_are_no_code(tmp_path: Path) -> None:
    done = analysed(tmp_path, {"rows.npz": archive("x.npy")})
    assert (done.returncode, done.stdout) == (1, "There is no Python file in the source: nothing was looked at.\n")
    assert analysed(tmp_path, {"train.py": b"x = 1\n"}, "train.py").returncode == 0


def test_what_falaj_itself_sends_along_with_a_training_is_not_judged(tmp_path: Path) -> None:
    done = analysed(tmp_path, {"train.py": b"x = 1\n", **companions()}, ".falaj/start.py", "train.py")
    assert done.returncode == 0, done.stdout + done.stderr


def trained(hall: Hall, *specs: Spec) -> int:
    """A version of a run that all of these jobs wrote to."""
    jobs = list[str]()
    run = hall.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for spec in specs:
        jobs.append(hall.call(SUBMIT_JOB, Submit(project=PROJECT, spec=replace(spec, run=run))).job.id)
    hall.call_off(*jobs)
    return hall.register(run.encode(), run=run, by=tuple(jobs))


def test_what_another_hand_put_beside_what_a_job_wrote_is_not_what_was_trained(hall: Hall) -> None:
    """Be it into the job's run once that is over, or into a model that names that run as its own."""
    hall.apply(CODE, Gate(name="cost", kind="cost", budget=5))
    source = hall.source(b"x = 1\n")
    run = hall.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    spec = Spec(command=("python", "train.py"), source=source, run=run)
    job = hall.call(SUBMIT_JOB, Submit(project=PROJECT, spec=spec)).job.id
    hall.call_off(job)
    found = hall.run(hall.register(b"anything", run=run))
    for gate in ("code", "cost"):
        assert found[gate].state == "failed"
        assert "'weights.bin' was not written by the job that trained it" in found[gate].words
    logged = hall.call(CREATE_LOGGED_MODEL, CreateLoggedModel(project=PROJECT, name="other")).id
    hall.send(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=logged, name="weights.bin"), b"anything else")
    asked = CreateVersion(project=PROJECT, model=MODEL, holder=logged, run=run)
    with pytest.raises(Invalid, match="was logged by no run, so the version cannot come from run"):
        hall.call(CREATE_VERSION, asked)


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "train.sh"),
        ("sh", "-c", "python train.py"),
        ("python", "-c", "print(1)", "train.py"),
        ("python", "-Bc", "print(1)", "train.py"),
        ("python", "-x", "train.py"),
        ("python", "-"),
        ("python",),
        ("./python", "train.py"),
    ],
)
def test_training_that_ran_what_nobody_can_read_has_failed_the_gate(hall: Hall, command: tuple[str, ...]) -> None:
    hall.apply(CODE)
    found = hall.run(trained(hall, Spec(command=command, source=hall.source(b"x = 1\n"))))["code"]
    assert (found.state, found.job) == ("failed", "")
    assert "say `python FILE.py` or `python -m MODULE`" in found.words


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        (("python3", "-u", "train.py", "--depth", "3"), ["train.py"]),
        (("/usr/bin/python3.11", "-Im", "train"), None),
        (("/usr/bin/python3.11", "-I", "-m", "train"), ["-m train"]),
        (
            ("python3", ".falaj/start.py", "single", "--processes", "1", "--", "train.py", "--", "x"),
            [".falaj/start.py", "train.py"],
        ),
        (("python3", ".falaj/start.py", "single"), [".falaj/start.py", ""]),
        ((*STEPS, "0" * 32, "train", "-1"), []),
    ],
)
def test_what_training_ran_is_looked_for_in_its_source(
    hall: Hall, command: tuple[str, ...], programs: list[str] | None
) -> None:
    hall.apply(CODE)
    found = hall.run(trained(hall, Spec(command=command, source=hall.source(b"x = 1\n"))))["code"]
    if programs is None:
        assert found.job == ""
        return
    assert list(hall.job(found.job).spec.command[len(ANALYSIS) + 1 :]) == programs
    hall.call_off(found.job)
    hall.settle()


def test_training_of_several_sources_or_of_one_that_nobody_knows_has_failed_the_gate(hall: Hall) -> None:
    hall.apply(CODE)
    clean, other = (Spec(command=("python", "train.py"), source=hall.source(text)) for text in (b"x = 1\n", b"x = 2\n"))
    for specs, words in (
        ((clean, other), "jobs of 2 sources"),
        ((other, clean), "jobs of 2 sources"),
        ((clean, replace(clean, source="")), "had no source"),
    ):
        found = hall.run(trained(hall, *specs), source=clean.source)["code"]
        assert (found.state, found.job) == ("failed", ""), found
        assert words in found.words
    again = hall.run(trained(hall, clean, clean))["code"]
    assert hall.job(again.job).spec.command[-1] == "train.py"
    hall.call_off(again.job)
    hall.settle()
