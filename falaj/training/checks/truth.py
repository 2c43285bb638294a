"""The target beside predictions: whether it is classes or numbers, and how wrong each row is."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.checks.columns import Column

MOST_CLASSES: Final = 20  # distinct whole numbers that are still read as classes


def is_classes(truth: Column) -> bool:
    """Texts, or few whole numbers."""
    if truth.kind == "category":
        return True
    distinct = np.unique(truth.known)
    return len(distinct) <= MOST_CLASSES and bool(np.all(distinct == np.round(distinct)))


@value
class Judged:
    """`wrong` has one number a row: 1 for a wrong class, or the size of the error. `confidence` and `hit` are there where
    probabilities are: of the second of two classes, or of the class that was predicted."""

    classes: bool
    truth: NDArray[Any]
    said: NDArray[Any]
    wrong: NDArray[np.float64]
    rows: NDArray[np.int64]  # those whose truth is known
    confidence: NDArray[np.float64] | None = None
    hit: NDArray[np.float64] | None = None
    brier: float | None = None


def judged(truth: Column, predictions: Any, labels: Any = None) -> Judged:
    """`predictions` are classes, numbers, probabilities of the second of two classes, or one column of probabilities a class;
    the order of classes is `labels`, or sorted."""
    said = np.asarray(predictions.to_numpy() if hasattr(predictions, "to_numpy") else predictions)
    if len(said) != len(truth):
        raise Invalid(f"there are {len(said)} predictions for {len(truth)} test rows: give one for each")
    rows = np.flatnonzero(~truth.missing)
    known, said = truth.values[rows], said[rows]
    if not is_classes(truth):
        numbers = said.reshape(len(said), -1)[:, 0].astype(np.float64)
        return Judged(classes=False, truth=known, said=numbers, wrong=np.abs(known - numbers), rows=rows)
    names = np.unique(known) if labels is None else _names(truth, labels)
    shares = _probabilities(said, names)
    if shares is None:
        given = said.ravel().astype(np.float64) if truth.kind == "number" else said.ravel().astype(str)
        wrong = (given != (known if truth.kind == "number" else known.astype(str))).astype(np.float64)
        return Judged(classes=True, truth=known, said=given, wrong=wrong, rows=rows)
    hits = known[:, None] == names[None, :]
    best = shares.argmax(axis=1)
    right = hits[np.arange(len(best)), best].astype(np.float64)
    squares = (shares - hits) ** 2
    two = len(names) == 2
    return Judged(
        classes=True,
        truth=known,
        said=names[best],
        wrong=1 - right,
        rows=rows,
        confidence=shares[:, 1] if two else shares.max(axis=1),
        hit=hits[:, 1].astype(np.float64) if two else right,
        brier=float(np.mean(squares[:, 1] if two else squares.sum(axis=1))),
    )


def _names(truth: Column, labels: Any) -> NDArray[Any]:
    given = np.asarray(labels)
    return given.astype(np.float64) if truth.kind == "number" else given.astype(str).astype(object)


def _probabilities(said: NDArray[Any], names: NDArray[Any]) -> NDArray[np.float64] | None:
    if said.ndim == 2 and said.shape[1] > 1:
        if said.shape[1] != len(names):
            raise Invalid(
                f"there are probabilities of {said.shape[1]} classes, and the target has {len(names)}: name them by `labels`"
            )
        return said.astype(np.float64)
    if said.dtype.kind != "f" or len(names) != 2 or np.all(said == np.round(said)) or said.min() < 0 or said.max() > 1:
        return None
    second = said.ravel().astype(np.float64)
    return np.column_stack([1 - second, second])
