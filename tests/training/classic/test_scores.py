"""Figures, held against scikit-learn's own."""

import numpy as np
import pytest
from sklearn import metrics

from falaj.base.errors import Invalid
from falaj.training.classic.scores import Predictions, scores


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"]])
def test_figures_are_those_of_scikit_learn(classes):
    random, names = np.random.default_rng(4), np.array(classes)
    truth = random.choice(names, 300)
    shares = np.round(random.dirichlet(np.ones(len(names)), 300), 2)  # with ties
    shares /= shares.sum(axis=1, keepdims=True)
    found = Predictions(labels=names[shares.argmax(axis=1)], probabilities=shares, classes=names)
    figures = {one.name: one.figure(truth, found) for one in scores(["auc", "log_loss", "accuracy", "brier"], "classes")}
    two = len(names) == 2
    area = metrics.roc_auc_score(truth, shares[:, 1]) if two else metrics.roc_auc_score(truth, shares, multi_class="ovr")
    assert figures["auc"] == pytest.approx(area)
    assert figures["log_loss"] == pytest.approx(metrics.log_loss(truth, np.clip(shares, 1e-15, 1), labels=names))
    assert figures["accuracy"] == metrics.accuracy_score(truth, found.labels)
    hits = truth[:, None] == names
    assert figures["brier"] == pytest.approx(((shares - hits) ** 2).sum() / 300 / (2 if two else 1))


def test_figures_of_probabilities_need_them():
    (area,) = scores(["auc"], "binary")
    with pytest.raises(Invalid, match="gives no probabilities"):
        area.figure(np.array([0, 1]), Predictions(labels=np.array([0, 1])))
