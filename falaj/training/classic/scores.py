"""Figures of how good predictions are, by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.statistics.intervals import Interval
from falaj.statistics.ranks import area
from falaj.training.classic.estimators import BOOSTERS, last, library
from falaj.training.classic.splits import Task

Figure = Callable[[NDArray[Any], NDArray[Any]], float]
DEFAULTS: Final[Mapping[Task, tuple[str, ...]]] = {
    "binary": ("auc", "log_loss", "accuracy"),
    "classes": ("log_loss", "accuracy", "f1"),
    "numbers": ("rmse", "mae", "r2"),
}


@value
class Predictions:
    """Of one part of the rows. Probabilities where the model has them, one column a class, in the order of `classes`."""

    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None

    def of(self, rows: NDArray[np.int64]) -> "Predictions":
        some = None if self.probabilities is None else self.probabilities[rows]
        return Predictions(labels=self.labels[rows], probabilities=some, classes=self.classes)


@value
class Score:
    """One figure: how to get it, which way is better, and between what it can lie."""

    name: str
    higher: bool
    figure: Callable[[NDArray[Any], Predictions], float]
    least: float = -math.inf
    most: float = math.inf

    def possible(self, interval: Interval) -> Interval:
        return Interval(at=interval.at, low=max(interval.low, self.least), high=min(interval.high, self.most))


def _of_labels(figure: Figure) -> Callable[[NDArray[Any], Predictions], float]:
    return lambda truth, found: float(figure(truth, found.labels))


def _probable(found: Predictions) -> NDArray[np.float64]:
    if found.probabilities is None:
        raise Invalid("this model gives no probabilities: ask for figures of labels (accuracy, f1), or calibrate it first")
    return found.probabilities


def _classes(found: Predictions) -> NDArray[Any]:
    assert found.classes is not None  # nosec B101 - whoever asks has probabilities
    return found.classes


def _area(truth: NDArray[Any], found: Predictions) -> float:
    probabilities = _probable(found)
    if len(np.unique(truth)) < probabilities.shape[1]:
        return float("nan")  # a part without one of the classes has no such area
    if probabilities.shape[1] == 2:
        return area(probabilities[:, 1], truth == _classes(found)[1])
    return float(metrics.roc_auc_score(truth, probabilities, multi_class="ovr", labels=found.classes))


def _log_loss(truth: NDArray[Any], found: Predictions) -> float:
    shares, places = _probable(found), np.searchsorted(_classes(found), truth)
    return float(-np.log(np.clip(shares[np.arange(len(truth)), places], 1e-15, 1.0)).mean())


def _brier(truth: NDArray[Any], found: Predictions) -> float:
    hits = truth[:, None] == _classes(found)[None, :]
    squares = (_probable(found) - hits) ** 2
    return float((squares[:, 1] if squares.shape[1] == 2 else squares.sum(axis=1)).mean())


def _f1(truth: NDArray[Any], labels: NDArray[Any]) -> float:
    return float(metrics.f1_score(truth, labels, average="macro", zero_division=0.0))


_SHARE: Final = {"least": 0.0, "most": 1.0}
_KNOWN: Final = {
    score.name: score
    for score in (
        Score(name="accuracy", higher=True, figure=_of_labels(lambda truth, labels: float(np.mean(truth == labels))), **_SHARE),
        Score(name="auc", higher=True, figure=_area, **_SHARE),
        Score(name="balanced_accuracy", higher=True, figure=_of_labels(metrics.balanced_accuracy_score), **_SHARE),
        Score(name="brier", higher=False, figure=_brier, **_SHARE),
        Score(name="f1", higher=True, figure=_of_labels(_f1), **_SHARE),
        Score(name="log_loss", higher=False, figure=_log_loss, least=0.0),
        Score(name="mae", higher=False, figure=_of_labels(metrics.mean_absolute_error), least=0.0),
        Score(name="r2", higher=True, figure=_of_labels(metrics.r2_score), most=1.0),
        Score(name="rmse", higher=False, figure=_of_labels(metrics.root_mean_squared_error), least=0.0),
    )
}


def scores(wanted: Sequence[str] | Mapping[str, Figure] | None, task: Task, *, probable: bool = True) -> list[Score]:
    """By name, or by functions of the truth and what was predicted, higher being better. The first one decides."""
    if isinstance(wanted, Mapping):
        return [Score(name=name, higher=True, figure=_of_labels(figure)) for name, figure in wanted.items()]
    if not wanted:
        wanted = [name for name in DEFAULTS[task] if probable or name not in ("auc", "log_loss")]
    if strange := [name for name in wanted if name not in _KNOWN]:
        raise Invalid(f"no figure is called {', '.join(strange)}: there are {', '.join(_KNOWN)}, or give a function by a name")
    return [_KNOWN[name] for name in wanted]


def predicted(model: Any, table: Any, classes: NDArray[Any] | None = None) -> Predictions:
    """`classes` are all that there are: what a model never saw, it gives no probability."""
    own = getattr(model, "classes_", None)
    if own is None or not hasattr(model, "predict_proba"):
        return Predictions(labels=np.asarray(model.predict(table)), classes=None if own is None else np.asarray(own))
    own, found = np.asarray(own), np.asarray(model.predict_proba(table))
    # Boosters give the class that is most probable, and need not be asked twice.
    alike = library(last(model)) in BOOSTERS
    labels = own[found.argmax(axis=1)] if alike else np.asarray(model.predict(table))
    if classes is None or len(own) == len(classes):
        return Predictions(labels=labels, probabilities=found, classes=own)
    whole = np.zeros((len(found), len(classes)))
    whole[:, np.searchsorted(classes, own)] = found
    return Predictions(labels=labels, probabilities=whole, classes=classes)
