"""Whoever would have a version pass what it does not: forged figures, weaker gates, and evidence of something else."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.jobs.operations.jobs import SUBMIT_JOB, Spec, Submit
from falaj.lifecycle.gates.definitions import completed
from falaj.lifecycle.gates.planning import PROGRAM
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import Gate, OneRun, ReadGateFile, Require, Requirement, Sighting, TellGate, Told
from falaj.registry.operations.evidence import JUDGE_VERSION
from tests.lifecycle.gates.hall import ASKED, CSV, MEASURED, WHOLE, Hall, put_rows
from tests.lifecycle.playing import PROJECT, Stage

FINE = Told(rows=100, training_rows=100, sightings=(Sighting(check="leakage.duplicates", severity="fine", sentence="None."),))


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


@pytest.mark.parametrize(
    ("file", "content", "status", "says"),
    [
        ("good.py", b"print(1)\n", 0, ""),
        ("called.py", b"import os, subprocess\nsubprocess.call(os.environ['A'], shell=True)\n", 1, "called.py:2: "),
        ("unread.py", b"def broken(:\n", 1, "unread.py: cannot be read"),
        ("compiled.pyc", b"", 1, "compiled.pyc: is compiled"),
    ],
)
def test_what_cannot_be_analysed_has_not_passed(tmp_path: Path, file: str, content: bytes, status: int, says: str) -> None:
    (tmp_path / "other.py").write_bytes(b"x = 1\n")
    (tmp_path / file).write_bytes(content)
    _, *arguments = completed(Gate(name="code", kind="static")).command
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert says in done.stdout
