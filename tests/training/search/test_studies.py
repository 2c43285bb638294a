"""What a study is, who leads it, and when it is over."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from falaj.base.errors import Invalid
from falaj.training.search import written
from falaj.training.search.spaces import read_space
from falaj.training.search.stopping import Limits, decide
from falaj.training.search.studies import Objective, Study, Trial, differences, front, read_objective

LOSS, ACCURACY = Objective(metric="loss"), Objective(metric="accuracy", direction="max")


def study(**given) -> Study:
    return Study(**{"name": "s", "space": read_space({"x": "1..9"}), "objectives": (LOSS,)} | given)


def complete(number: int, *values: float) -> Trial:
    return Trial(number=number, params={"x": 1}, state="complete", values=values)


def failed(number: int, words: str = "no") -> Trial:
    return Trial(number=number, params={"x": 1}, state="failed", words=words)


def test_a_study_reads_back_from_its_tags_however_short_a_tag_may_be():
    whole = study(
        space=read_space({"lr": "log:1e-5..0.1", "act": "relu,tanh"}), sampler="random", pruner="asha", warmup=2, seed=7
    )
    tags = written.study_tags(whole, {"more": [1]}, 20)
    assert max(map(len, tags.values())) == 20
    assert written.read_study("s", tags) == (whole, {"more": [1]})
    with pytest.raises(Invalid, match="is no study"):
        written.read_study("s", {"team": "risk"})
    with pytest.raises(Invalid, match="were changed"):
        written.read_study("s", {"falaj.tune.0": "{"})
    newer = json.dumps({"study": {"version": 2}})
    with pytest.raises(Invalid, match="another version"):
        written.read_study("s", {"falaj.tune.0": newer})


def test_runs_that_are_no_trials_of_a_study_are_left_out():
    of = {"falaj.tune.trial": "3", "falaj.tune.state": "complete", "falaj.tune.values": "[0.5]"}
    found = written.read_trial(study(), "run", of, {"x": "4"})
    assert found is not None
    assert (found.number, found.values, found.params) == (3, (0.5,), {"x": 4})
    assert written.read_trial(study(), "run", {}, {"x": "4"}) is None
    assert written.read_trial(study(), "run", of, {"x": "40"}) is None
    assert written.read_trial(study(), "run", of | {"falaj.tune.state": "odd"}, {"x": "4"}) is None
    assert written.read_trial(study(), "run", of | {"falaj.tune.values": "[]"}, {"x": "4"}) is None


DEEP = "[" * 100_000
ABSURD = ("", "{", DEEP, "null", "7", '"x"', "[[1]]", '["a"]', "[NaN]", "[1e999]", "[true]", '{"a": 1}', f"[1{'0' * 400}]")


@pytest.mark.parametrize("text", ABSURD)
def test_tags_that_anybody_may_write_are_read_as_nothing_or_refused_in_words(text: str):
    of = {"falaj.tune.trial": "3", "falaj.tune.state": "complete", "falaj.tune.values": text, "falaj.job": "../../x"}
    assert written.read_trial(study(), "run", of, {"x": "4"}) is None
    found = written.read_trial(study(), "run", of | {"falaj.tune.state": "pruned"}, {"x": "4"})
    assert found is not None
    assert (found.values, found.job) == ((), "")
    assert written.read_trial(study(), "run", of | {"falaj.tune.trial": "9" * 5000}, {"x": "4"}) is None
    assert written.read_importance({written.IMPORTANCE: text}) in ({}, {"a": 1.0})
    for tags in ({written.LIMITS: text}, {written.LIMITS: '{"trials": -1}'}, {written.LIMITS: '{"trials": "9"}'}):
        with pytest.raises(Invalid):
            written.read_limits(tags)
    with pytest.raises(Invalid):
        written.read_study("s", {"falaj.tune.0": text})


@pytest.mark.parametrize(
    "changed",
    [
        {"space": [{"name": "x", "kind": "float", "low": "a", "high": 1.0, "log": False, "step": 0.0}]},
        {"space": [{"name": "x", "kind": "float", "low": -1.0, "high": float("inf"), "log": False, "step": 0.0}]},
        {"space": [{"name": "x", "kind": "float", "low": -1.0, "high": 1.0, "log": True, "step": 0.0}]},
        {"space": [{"name": "x", "kind": "int", "low": -1e308, "high": 1e308, "log": False, "step": 1}], "sampler": "grid"},
        {"space": [{"name": "x", "kind": "odd"}]},
        {"space": [{"name": "<b>", "kind": "choice", "choices": ["a"]}]},
        {"space": [{"name": "x", "kind": "choice", "choices": [["a"]]}]},
        {"objectives": [["loss", "sideways"]]},
        {"objectives": [[{}, "min"]]},
        {"seed": 1e400},
        {"warmup": "3"},
    ],
)
def test_a_study_that_somebody_changed_into_none_is_refused(changed: dict):
    whole = {"study": json.loads(written.study_tags(study(), {}, 8000)["falaj.tune.0"])["study"] | changed}
    with pytest.raises(Invalid):
        written.read_study("s", {"falaj.tune.0": json.dumps(whole)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"objectives": ()}, "name the metric"),
        ({"objectives": (LOSS, LOSS)}, "named twice"),
        ({"objectives": (LOSS, ACCURACY), "pruner": "asha"}, "cannot be pruned"),
        ({"objectives": (LOSS, ACCURACY), "sampler": "cma"}, "one metric"),
        ({"space": read_space({"a": "u,v"}), "sampler": "cma"}, "searches numbers"),
        ({"space": read_space({"a": "0.0..1.0"}), "sampler": "grid"}, "say a step"),
        ({"warmup": 3}, "name a pruner"),
        ({"sampler": "luck"}, "no sampler 'luck'"),
        ({"pruner": "luck"}, "no pruner 'luck'"),
    ],
)
def test_studies_that_cannot_be_are_refused_in_words(given: dict, words: str):
    with pytest.raises(Invalid, match=words):
        study(**given)


def test_a_metric_says_which_way_is_better():
    assert read_objective("loss") == LOSS
    assert read_objective("accuracy:max") == ACCURACY
    assert read_objective("val:loss:minimise") == Objective(metric="val:loss")
    for text in ("loss:up", ":min"):
        with pytest.raises(Invalid):
            read_objective(text)


def test_what_a_study_is_asked_for_otherwise_than_before_is_said():
    before = study(space=read_space({"x": "1..8", "seed": "1..2"}), objectives=(ACCURACY,), sampler="random")
    assert differences(study(), study()) == []
    assert differences(study(space=read_space({"x": "1..9", "y": "0,1"})), before) == [
        "x was 1..8, and is now 1..9",
        "seed was 1..2, and is not set now",
        "y was not set, and is now 0,1",
        "the metric was accuracy:max, and is now loss:min",
        "the sampler was random, and is now tpe",
    ]


@pytest.mark.parametrize(
    "end", [written.End(state="done", words="All 3 points: of the grid."), written.End(state="given up", words="")]
)
def test_how_a_study_ended_reads_back_and_what_says_nothing_of_it_is_nothing(end: written.End):
    assert written.read_end({written.ENDED: written.end_tag(end, 100)}) == end
    assert len(written.end_tag(end, 7)) == 7
    assert written.read_end({written.ENDED: "well: so"}) is written.read_end({}) is None


@given(some.lists(some.tuples(some.integers(0, 6), some.integers(0, 6)), max_size=20))
def test_nobody_of_the_front_is_beaten_and_everybody_else_is(pairs: list[tuple[int, int]]):
    trials = [complete(number, loss, accuracy) for number, (loss, accuracy) in enumerate(pairs)]
    kept = front((LOSS, ACCURACY), trials)

    def beats(one: Trial, other: Trial) -> bool:
        return one.values != other.values and one.values[0] <= other.values[0] and one.values[1] >= other.values[1]

    for trial in trials:
        assert (trial in kept) == (not any(beats(other, trial) for other in trials))


def test_of_one_metric_the_earliest_best_leads_and_what_is_no_number_does_not():
    trials = [complete(0, 2.0), complete(1, 1.0), complete(2, 1.0), complete(3, float("nan")), failed(4)]
    assert [one.number for one in front((LOSS,), trials)] == [1]
    assert [one.number for one in front((ACCURACY,), trials)] == [0]
    assert front((LOSS,), [failed(0)]) == []


def test_a_study_is_over_when_its_limits_say_so():
    good = [complete(number, value) for number, value in enumerate((3.0, 1.0, 2.0, 2.0))]
    assert decide((LOSS,), Limits(trials=5), good, 0).words == ""
    assert "All 4 trials" in decide((LOSS,), Limits(trials=4), good, 0).words
    patient = decide((LOSS,), Limits(trials=9, patience=2), good, 0)
    assert (patient.words, patient.at_once) == ("2 trials in a row were no better than trial 1.", False)
    assert decide((LOSS,), Limits(trials=9, patience=3), good, 0).words == ""
    reached = decide((LOSS,), Limits(trials=9, target=1.5), good, 0)
    assert reached.at_once
    assert "reached the target" in reached.words
    assert decide((ACCURACY,), Limits(trials=9, target=4), good, 0).words == ""
    assert decide((LOSS,), Limits(trials=9, seconds=60), good, 59).words == ""
    assert decide((LOSS,), Limits(trials=9, seconds=60), good, 60).at_once


def test_three_failures_and_nothing_else_are_enough():
    limits = Limits(trials=9)
    assert decide((LOSS,), limits, [failed(0), failed(1)], 0).words == ""
    verdict = decide((LOSS,), limits, [failed(0, "no disk"), failed(1, "no disk"), failed(2, "no luck")], 0)
    assert verdict.hopeless
    assert verdict.words.endswith("no disk / no luck")
    mended = [failed(number) for number in range(4)]
    assert decide((LOSS,), limits, mended, 0, earlier={0, 1, 2}).words == ""
    assert decide((LOSS,), limits, [*mended, failed(4), failed(5)], 0, earlier={0, 1, 2}).hopeless
    assert decide((LOSS,), limits, [complete(0, 1.0), *(failed(number) for number in range(1, 9))], 0).hopeless is False


def test_limits_that_cannot_be_are_refused():
    """By whoever writes the tag, too: its trials run in the name of who goes on."""
    few = ({"trials": 0}, {"parallel": 0}, {"patience": -1}, {"seconds": -1.0})
    many = ({"trials": 10**7}, {"parallel": 5_000_000_000}, {"parallel": 2.0}, {"trials": True}, {"seconds": 1e300})
    for wrong in (*few, *many, {"trials": 1e300}):
        with pytest.raises(Invalid, match=r"whole number from|seconds, not"):
            Limits(**wrong)
        with pytest.raises(Invalid, match="limits was changed"):
            written.read_limits({written.LIMITS: json.dumps(wrong)})


def test_limits_are_said_in_words():
    whole = Limits(trials=4000, parallel=8, patience=5, seconds=60.0, target=0.5)
    assert str(Limits()) == "20 trials were begun, 1 at once"
    told = (
        "4,000 trials were begun, 8 at once, or 5 in a row were no better, or 60 s have gone by, or the target 0.5 is reached"
    )
    assert str(whole) == told
