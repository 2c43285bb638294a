"""Figures of quality: the value is scikit-learn's, the interval holds the truth as often as it says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from falaj.statistics import losses, quality
from falaj.statistics.intervals import wilson

SIMULATED = 300
ENOUGH = 0.95 - 3 * math.sqrt(0.05 * 0.95 / SIMULATED)
LABELS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=2, max_size=60)


@settings(max_examples=60)
@given(LABELS)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true", "ignore:A single label was found")
def test_labels_are_judged_as_scikit_learn_does(pairs):
    truth, said = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    assert quality.accuracy(said, truth).at == pytest.approx(metrics.accuracy_score(truth, said))
    assert quality.balanced_accuracy(said, truth).at == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    found = quality.f1(said, truth)
    assert found.at == pytest.approx(metrics.f1_score(truth, said, average="macro"))
    assert 0 <= found.low <= found.at <= found.high <= 1


def test_scores_and_numbers_are_judged_as_scikit_learn_does():
    random = np.random.default_rng(1)
    truth = random.random(400) < 0.3
    chances = np.clip(np.round(random.random(400) * 0.5 + truth * 0.3, 2), 0.01, 0.99)
    table = random.dirichlet([1, 1, 1], 400)
    kinds = random.integers(0, 3, 400)
    assert quality.auc(chances, truth).at == pytest.approx(metrics.roc_auc_score(truth, chances))
    assert quality.log_loss(chances, truth).at == pytest.approx(metrics.log_loss(truth, chances))
    assert quality.log_loss(table, kinds).at == pytest.approx(metrics.log_loss(kinds, table))
    assert quality.brier(chances, truth).at == pytest.approx(metrics.brier_score_loss(truth, chances))
    assert quality.brier(table, kinds).at == pytest.approx(((table - np.eye(3)[kinds]) ** 2).sum(axis=1).mean())
    came, said = random.normal(size=400), random.normal(size=400)
    assert quality.rmse(said, came).at == pytest.approx(metrics.root_mean_squared_error(came, said))
    assert quality.mae(said, came).at == pytest.approx(metrics.mean_absolute_error(came, said))
    assert quality.r2(said, came).at == pytest.approx(metrics.r2_score(came, said))


def labels(random, rows):
    truth = random.choice(3, rows, p=[0.6, 0.3, 0.1])
    return np.where(random.random(rows) < 0.75, truth, random.integers(0, 3, rows)), truth


def scores(random, rows):
    truth = random.random(rows) < 0.3
    return random.normal(size=rows) + truth, truth


def chances(random, rows):
    said = random.beta(2, 3, rows)
    return said, random.random(rows) < said**1.5


def numbers(random, rows):
    truth = random.normal(size=rows)
    return 0.8 * truth + 0.5 * random.standard_t(8, rows), truth


@pytest.mark.parametrize(
    ("figure", "draw"),
    [
        (quality.accuracy, labels),
        (quality.balanced_accuracy, labels),
        (quality.f1, labels),
        (quality.auc, scores),
        (quality.log_loss, chances),
        (quality.brier, chances),
        (quality.calibration_error, chances),
        (quality.rmse, numbers),
        (quality.mae, numbers),
        (quality.r2, numbers),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(figure, draw):
    random = np.random.default_rng(40_961)
    true = figure(*draw(random, 300_000)).at
    looks = [figure(*draw(random, 400)) for _ in range(SIMULATED)]
    assert np.mean([look.low <= true <= look.high for look in looks]) >= ENOUGH
    assert np.mean([look.high - look.low for look in looks]) < 0.6


def test_a_model_that_says_how_sure_it_is_has_an_interval_down_to_nought():
    random = np.random.default_rng(2)
    said = random.random((SIMULATED, 500))
    looks = [quality.calibration_error(one, random.random(500) < one) for one in said]
    assert np.mean([look.low == 0 for look in looks]) >= ENOUGH
    assert quality.calibration_error(np.full(5000, 0.9), random.random(5000) < 0.6).low > 0.25


def test_windows_add_up_to_what_all_rows_together_give():
    random = np.random.default_rng(3)
    said, truth = chances(random, 3000)
    parts = np.array_split(np.arange(3000), 7)
    for each, whole in ((losses.log_losses, quality.log_loss), (losses.brier_losses, quality.brier)):
        sums = [losses.sums_of(each(said[part], truth[part])) for part in parts]
        found, expected = losses.mean_of_sums(sum(sums[1:], sums[0])), whole(said, truth)
        assert (found.at, found.low, found.high) == pytest.approx((expected.at, expected.low, expected.high))
    squares = [losses.sums_of((said[part] - truth[part]) ** 2) for part in parts]
    assert losses.root_of_sums(sum(squares[1:], squares[0])).high == pytest.approx(quality.rmse(said, truth.astype(float)).high)
    hits = [int((said[part] > 0.5).sum()) for part in parts]
    assert wilson(sum(hits), 3000).low == pytest.approx(quality.accuracy(said > 0.5, np.full(3000, True)).low)


def test_what_has_no_errors_is_not_certain():
    truth = np.arange(60) % 2
    for figure in (quality.accuracy, quality.balanced_accuracy, quality.f1, quality.auc):
        found = figure(truth, truth)
        assert found.at == 1.0
        assert 0.85 < found.low < 1.0
    assert quality.balanced_accuracy([1, 1], [1, 1]).low < 1


def test_nothing_is_said_of_no_rows_or_of_answers_without_numbers():
    for figure in (quality.accuracy, quality.f1, quality.auc, quality.calibration_error, quality.rmse, quality.mae, quality.r2):
        assert math.isnan(figure([], []).at)
    assert math.isnan(quality.rmse([1.0, math.nan, 2.0], [1.0, 2.0, 3.0]).at)
    assert quality.r2([1.0, math.nan, 2.0], [1.0, 2.0, 3.0]).low == -math.inf
    assert math.isnan(quality.auc([0.1, math.nan], [True, False]).at)
    assert math.isnan(quality.r2([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]).at)  # a truth that never changes
