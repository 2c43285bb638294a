"""Which layers a model can least afford to have rounded: those that add most to the error on its way through the network."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from falaj.base.values import value
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Material

STEPS: Final = (1, 2, 4, 8, 16)  # so many layers are left as they were, one try after the other


@value
class Passage:
    """What a layer was given and gave, in the original and in the rounded model."""

    given: Array
    made: Array
    rounded_given: Array
    rounded_made: Array

    @property
    def added(self) -> float:
        """The error that came about within: what comes out, less what came in."""
        return _error(self.made, self.rounded_made) - _error(self.given, self.rounded_given)


def first_fit(
    tried: Iterable[tuple[float, Made]], made: Made, material: Material, *, timer: Callable[[], float] = time.monotonic
) -> Made:
    """The first form of what was `made` so far that is worse by no more than is allowed, or than that was, among those that can
    be tried in time. Where none is, the one that comes nearest: of few rows a single one may be too much, and whether that is
    chance is not decided here."""
    started, least, nearest = timer(), math.inf, None
    allowed = max(material.allowed, material.drop(made))
    for drop, form in tried:
        if drop <= allowed:
            return form
        if drop < least or nearest is None:
            least, nearest = drop, form
        if timer() - started > material.seconds:
            break
    if nearest is None:
        raise CannotBeMade("there is no form of it in eight bits")
    return nearest


def most_sensitive(passages: Mapping[str, Passage]) -> list[str]:
    return sorted(passages, key=lambda name: -passages[name].added)


def _error(said: Array, rounded: Array) -> float:
    """As a share of what there is."""
    wide, off = said.astype(np.float64), said.astype(np.float64) - rounded.astype(np.float64)
    whole = float((wide**2).sum())
    return float((off**2).sum()) / whole if whole else 0.0
