"""Accuracy without labels. Seeds were drawn after every threshold had been set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from falaj.statistics.estimation import ASSUMED, calibrated, estimated

BINS = 20


def drawn(random, rows, sure):
    """Confidences, and whether such a prediction is right: this model is surer than it should be."""
    said = random.beta(sure, 2, rows)
    return np.minimum((said * BINS).astype(int), BINS - 1), random.random(rows) < 0.3 + 0.6 * said**2


def learnt(random, rows=4000):
    bins, right = drawn(random, rows, 6)
    return calibrated(np.bincount(bins[right], minlength=BINS), np.bincount(bins, minlength=BINS))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=12))
def test_what_is_learnt_rises_as_that_of_scikit_learn(pairs):
    rows = np.array([max(a, b) for a, b in pairs])
    hits = np.array([min(a, b) for a, b in pairs])
    expected = IsotonicRegression().fit(np.arange(len(rows)), hits / rows, sample_weight=rows).predict(np.arange(len(rows)))
    assert calibrated(hits, rows).right == pytest.approx(expected.tolist())


@pytest.mark.parametrize("sure", [6, 3, 1.5])
def test_intervals_hold_the_accuracy_of_the_rows_as_often_as_they_say(sure):
    random = np.random.default_rng(112_358)
    held = []
    for _ in range(200):
        calibration = learnt(random)
        bins, right = drawn(random, 1000, sure)
        found = estimated(calibration, np.bincount(bins, minlength=BINS)).accuracy
        held.append(found.low <= right.mean() <= found.high)
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 200)


def test_rows_that_the_model_is_less_sure_of_have_an_effect_and_others_none():
    random = np.random.default_rng(46_368)
    wrongly = 0
    for _ in range(100):
        calibration = learnt(random)
        same = estimated(calibration, np.bincount(drawn(random, 1000, 6)[0], minlength=BINS))
        wrongly += not same.change.low <= 0 <= same.change.high
        less = estimated(calibration, np.bincount(drawn(random, 1000, 2)[0], minlength=BINS))
        assert less.change.high < 0
    assert wrongly <= 5 + 3 * math.sqrt(100 * 0.05 * 0.95)
    assert ASSUMED in str(less)


def test_bins_without_rows_learn_from_the_nearest():
    found = calibrated([0, 5, 0, 9, 0], [0, 10, 0, 10, 0])
    assert found.right == (0.5, 0.5, 0.5, 0.9, 0.9)


def test_what_was_always_right_is_not_certain():
    calibration = calibrated([10, 30], [20, 30])
    found = estimated(calibration, [0, 50]).accuracy
    assert found.at == 1
    assert found.low < 0.99


def test_nothing_is_said_without_rows():
    assert math.isnan(estimated(calibrated([1], [2]), [0]).accuracy.at)
    with pytest.raises(ValueError, match="labelled rows"):
        calibrated([0, 0], [0, 0])
