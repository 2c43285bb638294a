"""What a row's probabilities are charged: nothing where they were sure of what is true, one where they were sure of something
else. A variant that keeps the answers and ruins how sure they are shows here."""

import math
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import numpy as np

from falaj.optimisation.making.values import Array

By: TypeAlias = Literal["brier", "log"]
CLIPPED: Final = 1e-3  # to be less sure than this costs no more
_MOST: Final = 1e6  # that a row is charged whose numbers are no probabilities at all


def charged(probabilities: Array, truth: Array) -> Mapping[By, Array]:
    """Of each row by half its Brier score and by its clipped log score. `truth` has a column for each class, as the
    probabilities have; where nobody knows what is true, it is what the original says, which itself is charged nothing then."""
    fit: Array = np.asarray(np.isfinite(probabilities).all(axis=1) & np.isfinite(truth).all(axis=1))
    said, true = (np.where(fit[:, None], one, 0.0) for one in (probabilities, truth))
    with np.errstate(over="ignore"):
        brier = np.minimum(np.square(said - true).sum(axis=1) / 2, _MOST)
    lost = true * (np.log(np.clip(true, CLIPPED, 1)) - np.log(np.clip(said, CLIPPED, 1)))
    log = lost.sum(axis=1) / -math.log(CLIPPED)
    return {"brier": np.where(fit, brier, 1.0), "log": np.where(fit, log, 1.0)}


def certain(classes: Array, width: int) -> Array:
    """Numbers of classes as probabilities; of a number that no class has, none is known."""
    known = (classes >= 0) & (classes < width)
    found: Array = np.where(known[:, None], np.eye(width)[np.where(known, classes, 0)], np.nan)
    return found
