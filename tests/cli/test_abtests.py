"""A/B tests as they are written on a command line, and how they are told."""

import math
import re
from dataclasses import replace

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.cli import abtest_looks
from falaj.cli.layout import Layout
from falaj.monitoring.operations.abtests import (
    Abtest,
    ArmShown,
    Candidate,
    Design,
    Difference,
    Expected,
    Guardrail,
    GuardrailShown,
    Metric,
)
from falaj.registry.operations.promotions import Person


def test_candidates_metrics_and_guardrails_are_written_in_a_word() -> None:
    assert abtest_looks.candidate_of("4") == Candidate(revision=4)
    assert abtest_looks.candidate_of("4=12.5") == Candidate(revision=4, share=1250)
    assert abtest_looks.candidate_of("4=12.5%") == Candidate(revision=4, share=1250)
    assert abtest_looks.metric_of("right") == Metric()
    assert abtest_looks.metric_of("spent") == Metric(of="value", value="spent", kind="mean")
    assert abtest_looks.metric_of("value:right") == Metric(of="value", value="right", kind="mean")
    assert abtest_looks.metric_of("spent", per="visits").kind == "mean"
    assert abtest_looks.guardrail_of("errors:1%") == Guardrail(of="errors", worst=0.01)
    cost = Metric(of="value", value="cost", kind="mean", better="lower")
    assert abtest_looks.guardrail_of("lower:cost:0.5") == Guardrail(of="metric", metric=cost, worst=0.5)


@pytest.mark.parametrize("text", ["", "x", "4=", "-1", "4=101", "4=0", "4=0%", "4=%"])
def test_what_is_no_candidate_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        abtest_looks.candidate_of(text)


@pytest.mark.parametrize("text", ["errors", "errors:", "errors:much", ":1%"])
def test_what_is_no_guardrail_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        abtest_looks.guardrail_of(text)


@pytest.mark.parametrize(
    ("design", "words"),
    [
        (Design(candidates=(Candidate(revision=4),), days=400), "--days may be at most 366, and is 400."),
        (
            Design(candidates=(Candidate(revision=4),), metric=Metric(of="value", value="a/b")),
            "--metric must be a value's name",
        ),
        (Design(candidates=(Candidate(revision=4),), metric=Metric(per="a/b")), "--per must be a value's name"),
        (Design(candidates=()), "A candidate must have 1 or more"),
    ],
)
def test_what_cannot_be_designed_is_told_by_its_option(design: Design, words: str) -> None:
    with pytest.raises(Invalid) as told:
        abtest_looks.designed(design)
    assert str(told.value).startswith(words)


def arm(revision: int, word: str, mean: float, difference: Difference | None) -> ArmShown:
    return ArmShown(
        revision=revision,
        model="fraud",
        version=revision,
        incumbent=difference is None,
        share=5000,
        word=word,  # type: ignore[arg-type]
        units=1200,
        mean=mean,
        difference=difference,
        calls=10,
        expected_units=1200.0,
    )


def test_a_test_is_told_by_a_sentence_a_table_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = math.nan
    expected = Expected(
        mean=nobody,
        deviation=nobody,
        labelled=0,
        calls_per_day=0.0,
        units_per_day=0.0,
        units_needed=5000.0,
        days_needed=math.inf,
        least_effect=nobody,
        sentences=("Nobody called lately.",),
    )
    guardrail = GuardrailShown(
        name="slow calls",
        unit="share",
        revision=4,
        incumbent=0.01,
        candidate=0.02,
        harm=0.01,
        low=-0.1,
        worst=0.05,
        broken=False,
    )
    unknown = replace(guardrail, name="nope", incumbent=nobody, candidate=nobody, harm=nobody)
    shown = Abtest(
        id="1" * 32,
        name="checkout",
        endpoint="scores",
        state="running",
        sentence="Nothing is decided after 3 days.",
        design=Design(candidates=(Candidate(revision=4),)),
        metric="right predictions",
        unit="share",
        expected=expected,
        arms=(arm(3, "open", 0.8, None), arm(4, "open", 0.82, Difference(at=0.02, low=-0.01, high=0.05))),
        guardrails=(guardrail, unknown),
        mismatch="",
        units=2400,
        repeated=0,
        crossed=0,
        started=Moment(0),
        started_by=Person(id="2" * 32, name="sam"),
        counted=None,
        ends=Moment(0),
        ended=None,
        ended_by=None,
        acted="",
        remarks=("Predictions count once every serving plane has taken up the split.",),
    )
    abtest_looks.shown(Layout(), shown)
    told = capsys.readouterr().out
    assert told.startswith("Nothing is decided after 3 days.")
    assert "82.00%" in told
    assert "+2 points" in told
    assert "-1 points to +5 points" in told
    assert "0.0 of 28" in told
    assert "2,400 of 5,000" in told
    assert "slow calls" in told
    assert "5 points allowed" in told
    assert re.search(r"slow calls .*holds\n", told)
    assert re.search(r"nope .*nothing known yet\n", told)
    abtest_looks.expected(Layout(), expected)
    assert "Nobody called lately." in capsys.readouterr().out
