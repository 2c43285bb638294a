"""Running gates: what is looked up is judged at once, what needs a job when that is over, and whatever fails is closed."""

import json
import re
from dataclasses import replace
from typing import Any, Literal

import pytest
from sqlalchemy import select, text, update

from falaj.base.clock import DAY, MINUTE, SECOND
from falaj.base.errors import Conflict, Forbidden
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.jobs.operations.jobs import SUBMIT_JOB, Spec, Submit
from falaj.lifecycle.gates import settling
from falaj.lifecycle.gates.store import runs
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import Gate, KnowPackages, ListGates, OneRun, ReadResults, Require
from falaj.registry.operations.versions import DELETE_VERSION, OneVersion
from tests.lifecycle.gates.hall import ASKED, CSV, MEASURED, MODEL, WHOLE, Hall, put_rows
from tests.lifecycle.playing import PROJECT, Stage

DATA = Gate(name="data", kind="data")
COST = Gate(name="cost", kind="cost", budget=5.0)
CHECK = Check(name="few", kind="range", columns=("x",), least=0, most=10)


@pytest.fixture
def hall(stage: Stage) -> Hall:
    """On either database."""
    return Hall(stage)


@pytest.fixture(scope="module")
def one(small: Stage) -> Hall:
    made = Hall(small, versions=1)
    put_rows(made, "known", CSV)
    put_rows(made, "later", CSV)
    return made


def test_gates_are_applied_listed_required_and_keep_their_evidence(hall: Hall) -> None:
    first = hall.apply(WHOLE, ASKED)
    assert [one.gate.name for one in first.items] == ["asked", "whole"]
    hall.run(1, "whole")
    again = hall.apply(WHOLE)
    assert (again.items[0].digest, again.items[0].changed) == (first.items[1].digest, first.items[1].changed)
    assert hall.evidence(1, "whole")[0].counts
    listed = hall.call(declared.REQUIRE_GATES, Require(project=PROJECT, model=MODEL, alias="Champion", gates=("whole",)))
    assert [(one.model, one.alias, one.gates) for one in listed.require] == [(MODEL, "champion", ("whole",))]
    assert hall.promote(1).state == "done"
    with pytest.raises(Forbidden, match="whole was not run"):
        hall.promote(2)
    assert hall.call(declared.REQUIRE_GATES, Require(project=PROJECT, model=MODEL, alias="champion")).require == ()
    assert hall.promote(2).state == "done"
    assert hall.call(declared.LIST_GATES, ListGates(project=PROJECT)) == hall.apply(WHOLE)


def test_what_is_looked_up_is_judged_at_once_with_evidence_and_leaf(hall: Hall) -> None:
    hall.apply(WHOLE, Gate(name="proven", kind="certificate"), COST)
    found = hall.run(1)
    results = hall.call(declared.READ_RESULTS, ReadResults(project=PROJECT, model=MODEL, version=1))
    assert (results.over, results.passed) == (True, False)
    assert {name: run.state for name, run in found.items()} == {"whole": "passed", "proven": "failed", "cost": "failed"}
    assert found["cost"].words == "Nobody knows what it cost: no job trained it."
    told = {one.gate: one for one in hall.evidence(1)}
    assert {name: one.id for name, one in told.items()} == {name: run.evidence for name, run in found.items()}
    leaves = hall.stage.leaves("version.judge")
    assert {(leaf.facts["gate"], leaf.facts["passed"], leaf.facts["digest"]) for leaf in leaves} == {
        (one.gate, one.passed, one.digest) for one in told.values()
    }
    (asked,) = hall.stage.leaves("gate.run")
    assert set(asked.facts["runs"]) == {"whole", "proven", "cost"}


def test_a_job_that_is_called_off_has_failed_its_gate_and_is_settled_once(hall: Hall) -> None:
    put_rows(hall, "known", CSV)
    put_rows(hall, "later", CSV)
    hall.apply(ASKED, MEASURED)
    runs = hall.run(1)
    assert {run.state for run in runs.values()} == {"running"}
    hall.settle()
    assert hall.evidence(1) == ()
    hall.call_off(*(run.job for run in runs.values()))
    for _ in range(3):
        hall.settle()
    words = {name: run.words for name, run in hall.results(1).items()}
    assert "did not end well" in words["asked"]
    assert "ended without a result" in words["apart"]
    assert sorted((one.gate, one.passed) for one in hall.evidence(1)) == [("apart", False), ("asked", False)]
    assert len(hall.stage.leaves("version.judge")) == 2


def test_what_is_odd_about_one_gate_has_failed_it_and_holds_up_no_others(hall: Hall) -> None:
    hall.apply(ASKED)
    odd, fine = hall.run(1)["asked"], hall.run(2)["asked"]
    hall.stage.platform.database.write(lambda work: work.execute(update(runs).where(runs.c.id == odd.id).values(pinned="?")))
    hall.call_off(odd.job, fine.job)
    hall.settle()
    assert hall.results(2)["asked"].state == "failed"
    assert (hall.results(1)["asked"].state, hall.evidence(1)[0].passed) == ("failed", False)
    assert "could not judge how it ended" in hall.evidence(1)[0].words


def test_a_gate_that_cannot_be_settled_at_all_waits_and_holds_up_no_others(one: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "AT_ONCE", 1)
    one.apply(ASKED)
    stuck, fine = one.run(1)["asked"], one.run(one.register(b"fine"))["asked"]
    one.call_off(stuck.job, fine.job)
    refuse = f"BEFORE INSERT ON registry_evidence WHEN NEW.job = '{stuck.job}' BEGIN SELECT RAISE(ABORT, 'full'); END"
    one.stage.platform.database.write(lambda work: work.execute(text(f"CREATE TRIGGER refuse {refuse}")))
    for _ in range(2):
        one.settle()
    assert (one.results(1)["asked"].state, one.results(fine.version)["asked"].state) == ("running", "failed")
    one.stage.platform.database.write(lambda work: work.execute(text("DROP TRIGGER refuse")))
    one.stage.clock.move(2 * MINUTE / SECOND)
    one.settle()
    assert one.results(1)["asked"].state == "failed"


def test_a_version_that_is_deleted_meanwhile_leaves_no_evidence(hall: Hall) -> None:
    hall.apply(ASKED)
    run = hall.run(2)["asked"]
    hall.call(DELETE_VERSION, OneVersion(project=PROJECT, model=MODEL, version=2))
    hall.call_off(run.job)
    hall.settle()
    assert hall.stage.leaves("version.judge") == []
    assert hall.stage.platform.database.read(_states) == ["void"]


def _states(work: Any) -> list[str]:
    return list(work.execute(select(runs.c.state)).scalars())


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        (Gate(name="g", kind="quality", on="nowhere", label="left"), "There is no dataset 'nowhere'"),
        (Gate(name="g", kind="quality", on="later", label="gone"), "has no column gone"),
        (Gate(name="g", kind="quality", on="later", label="left"), "cannot be served|not be served|no format|runtime"),
        (Gate(name="g", kind="leakage", on="later", label="left"), "Nobody knows which data it was trained on"),
        (Gate(name="g", kind="tests"), "needs the source"),
        (Gate(name="g", kind="static"), "needs the source"),
        (Gate(name="g", kind="data"), "Nobody knows which data it came from"),
        (Gate(name="g", kind="licences", licences=("MIT",)), "names no package"),
        (Gate(name="g", kind="vulnerabilities"), "Nobody told which vulnerabilities are known"),
    ],
)
def test_what_cannot_even_begin_has_failed_and_says_why(one: Hall, gate: Gate, why: str) -> None:
    one.apply(gate)
    run = one.run(1)["g"]
    assert run.state == "failed"
    (told, *_) = one.evidence(1, "g")
    assert not told.passed
    assert re.search(why, told.words), told.words


def test_data_that_a_version_came_from_has_to_hold_its_checks(one: Hall) -> None:
    one.apply(DATA)
    put_rows(one, "taught", CSV)
    version = one.register(b"taught", reads=("taught",))
    assert "has no checks" in one.run(version)["data"].words
    one.call(SET_CHECKS, SetChecks(project=PROJECT, dataset="taught", checks=(CHECK,)))
    found = one.run(version)["data"]
    assert (found.state, found.words.startswith("The checks of 1 dataset that it came from hold")) == ("passed", True)
    one.call(SET_CHECKS, SetChecks(project=PROJECT, dataset="taught", checks=(replace(CHECK, most=2),)))
    assert "breaks few" in one.run(version)["data"].words
    stranger = one.register(b"stranger", reads=("taught", "elsewhere"))
    assert "elsewhere@" in one.run(stranger)["data"].words


def test_what_a_version_needs_is_held_against_what_an_operator_told(one: Hall) -> None:
    limits = Gate(name="safe", kind="vulnerabilities", ignore=("CVE-2026-9",))
    one.apply(limits, Gate(name="free", kind="licences", licences=("MIT",)))
    version = one.register(b"needy", requirements=b"lib==1.1\nother==2.0\n")

    def know(about: Any, *entries: Any) -> None:
        one.send(declared.KNOW_PACKAGES, KnowPackages(project=PROJECT, about=about), json.dumps(entries).encode())

    def advisory(id: str, package: str, fixed: str) -> dict[str, Any]:
        spans = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}]
        return {"id": id, "affected": [{"package": {"ecosystem": "PyPI", "name": package}, "ranges": spans}]}

    know("advisory", advisory("CVE-2026-1", "lib", "1.2"), advisory("CVE-2026-9", "other", "3"))
    found = one.run(version, "safe")["safe"]
    assert (found.state, "lib 1.1 (CVE-2026-1)" in found.words) == ("failed", True)
    know("advisory", advisory("CVE-2026-1", "lib", "1.1"), advisory("CVE-2026-9", "other", "3"))
    assert one.run(version, "safe")["safe"].state == "passed"
    one.stage.clock.move(31 * DAY / SECOND)
    assert "31 days old, and 30 are allowed" in one.run(version, "safe")["safe"].words
    know("licence", {"Name": "lib", "Version": "1.1", "License": "MIT"})
    assert "other 2.0 (its licence is not known)" in one.run(version, "free")["free"].words
    know("licence", *({"Name": name, "License": "MIT"} for name in ("lib", "other")))
    assert one.run(version, "free")["free"].state == "passed"


def test_training_within_its_budget_is_shown_by_what_was_metered(one: Hall) -> None:
    one.apply(COST)
    job = one.call(SUBMIT_JOB, Submit(project=PROJECT, spec=Spec(command=("true",), experiment="trained"))).job
    version = one.register(b"metered", run=job.run, by=(job.id,))
    assert one.run(version)["cost"].words == "The job that trains it is not over."
    one.call_off(job.id)
    found = one.run(version)["cost"]
    assert (found.state, found.words) == ("passed", "Training it cost 0.00 of 5.")


@pytest.mark.parametrize("kind", ["static", "tests"])
def test_code_is_analysed_as_it_was_trained_with_whatever_is_given(one: Hall, kind: Literal["static", "tests"]) -> None:
    one.apply(Gate(name="code", kind=kind))
    trained, other = one.source(b"import os\n"), one.source(b"print(1)\n")
    spec = Spec(command=("python", "train.py"), source=trained, experiment="trained")
    job = one.call(SUBMIT_JOB, Submit(project=PROJECT, spec=spec)).job
    version = one.register(b"analysed", run=job.run, by=(job.id,))
    analysed = one.run(version, source=other)["code"]
    given = one.run(1, source=other)["code"]
    assert [one.job(run.job).spec.source for run in (analysed, given)] == [trained, other]
    one.call_off(analysed.job, given.job, job.id)
    one.settle()
    told = [json.loads(one.evidence(number, "code")[0].document) for number in (version, 1)]
    assert [document["source_from"] for document in told] == ["the jobs that trained the version", "whoever asked for it"]
    assert (told[0]["source"], told[0]["jobs"]) == (trained, [job.id])


def test_nothing_is_run_where_no_gates_are_defined(one: Hall) -> None:
    one.apply()
    with pytest.raises(Conflict, match="No gates are defined"):
        one.run(1)


def test_a_run_of_a_looked_up_gate_is_no_task(one: Hall) -> None:
    one.apply(WHOLE)
    run = one.run(1)["whole"]
    with pytest.raises(Conflict, match="nothing to measure"):
        one.call(declared.READ_TASK, OneRun(project=PROJECT, run=run.id))
