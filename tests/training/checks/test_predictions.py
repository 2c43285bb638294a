"""Slices and calibration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.training.checks import check
from falaj.training.checks.calibration import of_numbers, of_probabilities
from falaj.training.checks.columns import table
from falaj.training.checks.slices import slices
from falaj.training.checks.truth import judged as judge
from tests.training.checks.tables import drawn

FEW = settings(max_examples=10, deadline=None)
SEEDS = st.integers(0, 10_000)
TRAIN = drawn(100, 77)


def calibrated(rows, seed):
    random = np.random.default_rng(seed)
    said = random.beta(1, 2, rows)
    return said, (random.random(rows) < said).astype(float)


def test_a_calibrated_model_is_called_so_ninety_nine_times_in_a_hundred():
    wrong = sum(of_probabilities(*calibrated(300, seed), 0.0).severity != "fine" for seed in range(200))
    assert wrong <= 4  # at most 1 % is stated: 2 of 200, and as many more by chance


@FEW
@given(SEEDS)
def test_a_model_that_is_too_sure_is_called_so_with_the_size_of_it(seed):
    said, came = calibrated(2000, seed)
    sure = 1 / (1 + np.exp(-5 * np.log(said / (1 - said))))
    found = of_probabilities(sure, came, 0.0)
    assert (found.severity, "too sure" in found.sentence) == ("problem", True)
    assert found.figures["low"] < found.figures["error"] < found.figures["high"] + 1e-12
    assert sum(row["rows"] for row in found.details) == 2000
    timid = of_probabilities(0.5 + (said - 0.5) * 0.4, came, 0.0)
    assert (timid.severity != "fine", "not sure enough" in timid.sentence) == (True, True)


def test_the_interval_of_the_error_holds_the_truth():
    held = 0
    for seed in range(100):
        said, came = calibrated(1500, seed)
        found = of_probabilities(np.clip(said + 0.1, 0, 1), came, 0.0).figures
        held += found["low"] <= 0.1 <= found["high"]
    assert held >= 85


def test_many_rows_are_judged_like_few():
    said, came = calibrated(40_000, 1)
    assert of_probabilities(said, came, 0.0).severity == "fine"
    assert of_probabilities(np.clip(said + 0.05, 0, 1), came, 0.0).severity == "warning"


def test_numbers_that_are_too_extreme_or_biased_are_called_so():
    random = np.random.default_rng(1)
    truth = random.normal(size=1000)
    said = truth + 0.3 * random.normal(size=1000)
    shrunk = said * np.var(truth) / np.var(said)
    assert of_numbers(truth, shrunk).severity == "fine"
    assert "too extreme" in of_numbers(truth, 2 * said).sentence
    assert "too timid and too high" in of_numbers(truth, 0.3 * said + 1).sentence
    assert of_numbers(truth, np.zeros(1000)).severity == "warning"


def judged(seed, rows=900, worse=0.0):
    """Labels that are wrong one time in ten, and more often among the blue by `worse`."""
    test, random = drawn(rows, seed), np.random.default_rng(seed + 1)
    share = 0.1 + worse * (test["colour"] == "blue")
    said = np.where(random.random(rows) < share, 1 - test["target"], test["target"])
    return test, said


def test_slices_that_are_all_alike_are_named_at_most_once_in_a_hundred_times():
    named = 0
    for seed in range(150):
        test, said = judged(seed, 300)
        columns = table(test)
        found = slices(columns, judge(columns["target"], said), ["colour", "whole", "second"])
        named += any(one.severity != "fine" for one in found)
    assert named <= 3


@FEW
@given(SEEDS)
def test_the_slice_that_is_worse_is_named_with_its_interval(seed):
    test, said = judged(seed, worse=0.4)
    worst, *_ = check(TRAIN, test, predictions=said, slices=["whole", "colour", "second"]).of("slices")
    assert (worst.column, worst.severity) == ("colour = 'blue'", "problem")
    assert worst.figures["low"] < worst.figures["error"] < worst.figures["high"]
    assert worst.figures["low"] > worst.figures["rest"]


def test_slices_can_be_given_as_arrays_and_errors_of_numbers_have_them_too():
    random = np.random.default_rng(2)
    rows = {"x": random.normal(size=600), "target": random.normal(size=600)}
    old = random.random(600) < 0.3
    said = rows["target"] + random.normal(size=600) * np.where(old, 3.0, 0.5)
    worst, *_ = check(rows, rows, predictions=said, slices={"old": old}).of("slices")
    assert (worst.column, worst.severity) == ("old", "problem")
    few = check(rows, rows, predictions=said, slices={"rare": np.arange(600) < 5}).of("slices")
    assert [one.severity for one in few] == ["note"]


def test_probabilities_of_any_form_are_judged_alike():
    test = drawn(500, 3)
    share = np.array([0.5 * (1 + math.erf(at / math.sqrt(2))) for at in test["first"]])
    words = test | {"target": np.where(test["target"] > 0, "yes", "no")}
    one = check(TRAIN, test, predictions=share).of("calibration")
    two = check(TRAIN, test, predictions=np.column_stack([1 - share, share])).of("calibration")
    swapped = np.column_stack([share, 1 - share])
    named = check(words, words, predictions=swapped, labels=["yes", "no"]).of("calibration")
    assert one == two
    assert one[0].severity == "fine"
    assert named[0].figures["brier"] == pytest.approx(one[0].figures["brier"])


def test_predictions_that_do_not_fit_the_rows_are_refused():
    test = drawn(60, 3)
    with pytest.raises(Invalid, match="59 predictions for 60 test rows"):
        check(TRAIN, test, predictions=np.zeros(59))
    with pytest.raises(Invalid, match="probabilities of 3 classes, and the target has 2"):
        check(TRAIN, test, predictions=np.full((60, 3), 1 / 3))
    with pytest.raises(Invalid, match="give `test`"):
        check(TRAIN, predictions=np.zeros(60))
    with pytest.raises(Invalid, match="give `predictions`"):
        check(TRAIN, test, slices=["colour"])
