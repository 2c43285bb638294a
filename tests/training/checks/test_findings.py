"""Findings as gates, on the run's page, and the same whatever the order of rows."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.training.checks import ChecksFailed, check
from falaj.training.checks.findings import Findings
from tests.training.checks.tables import beside, drawn, some


class Told:
    def __init__(self):
        self.seen, self.said, self.files = {}, {}, {}

    def figures(self, figures, step=0):
        self.seen |= figures

    def words(self, words):
        self.said |= words

    def file(self, path, name):
        self.files[name] = json.loads(path.read_text())


def leaking():
    train = drawn(300, 1)
    return train, beside(drawn(100, 2, begin=300), some(train, np.arange(10)))


def test_a_gate_that_is_not_passed_says_why():
    findings = check(*leaking(), entity="patient", time="day")
    with pytest.raises(ChecksFailed, match=r"leakage.duplicates: 10 of 110 test rows \(9.1%\) stand in train") as failed:
        findings.must_pass("leakage", "drift")
    assert {one.check for one in failed.value.findings} == {"leakage.duplicates", "leakage.entities", "leakage.time"}
    findings.must_pass("leakage.target", "drift.schema", at="note")


def test_what_was_not_checked_does_not_pass():
    with pytest.raises(Invalid, match="calibration was not checked and cannot pass"):
        check(*leaking()).must_pass("calibration")
    with pytest.raises(Invalid, match="anything was not checked"):
        Findings(all=()).must_pass()


def test_that_nothing_was_checked_is_said():
    run = Told()
    findings = check(drawn(50, 1), run=run)
    assert findings.explain().startswith("nothing was checked: give `check` a `test` or a `reference`")
    assert run.said["falaj.training.checks"] == findings.explain()


def test_a_target_that_is_not_there_is_told_before_anything_passes():
    with pytest.raises(Invalid, match="there is no column 'outcmoe' to be the target; there are "):
        check(*leaking(), target="outcmoe")


def test_without_names_all_must_pass_and_what_failed_is_said_before_what_was_not_checked():
    for asked in ((), ("leakage", "calibration")):
        with pytest.raises(ChecksFailed, match=r"leakage\.duplicates"):
            check(*leaking(), entity="patient").must_pass(*asked)


def test_what_was_found_is_on_the_runs_page_and_in_a_file():
    run = Told()
    findings = check(*leaking(), entity="patient", ignore=["day"], run=run)
    assert run.seen["falaj.checks/leakage.duplicates/share"] == pytest.approx(10 / 110)
    assert run.seen["falaj.checks/leakage.entities/patient/common"] == 5
    assert run.seen["falaj.checks/problems"] == 2
    assert run.said["falaj.training.checks"].startswith("problem: 10 of 110 test rows")
    assert run.said["falaj.training.checks.worst"] == "problem"
    assert run.files["checks.json"] == json.loads(json.dumps(findings.as_document(), allow_nan=False))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_changes_nothing(seed):
    random = np.random.default_rng(seed)
    train, test = drawn(200, seed), drawn(150, seed + 1, begin=150)
    share = random.random(150)
    how = {"entity": "patient", "time": "day", "slices": ["colour", "second"]}
    before = check(train, test, predictions=share, **how)
    order = random.permutation(150)
    after = check(some(train, random.permutation(200)), some(test, order), predictions=share[order], **how)
    assert [(one.check, one.severity, one.column) for one in before] == [(one.check, one.severity, one.column) for one in after]
    for one, other in zip(before, after, strict=True):
        assert one.sentence == other.sentence
        assert one.figures == pytest.approx(other.figures, rel=1e-9, abs=1e-12)
