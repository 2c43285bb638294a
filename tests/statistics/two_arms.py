"""An experiment of two arms that grows window by window, as A/B tests do."""

import math
from dataclasses import replace

import numpy as np

from falaj.base.values import value
from falaj.statistics.arms import Arm, arm_of
from falaj.statistics.contests import Contest, of_bounded, of_means


@value
class TwoArms:
    """`low` and `high` bound what can come, where that is known."""

    share: float
    low: float = -math.inf
    high: float = math.inf
    candidate: Arm = Arm()
    incumbent: Arm = Arm()

    @property
    def contest(self) -> Contest:
        if not math.isfinite(self.high):
            return of_means(self.share, self.candidate, self.incumbent)
        return of_bounded(self.share, self.candidate, self.incumbent, self.high - self.low)

    def grown(self, candidate: Arm, incumbent: Arm) -> "TwoArms":
        return replace(self, candidate=self._with(self.candidate, candidate), incumbent=self._with(self.incumbent, incumbent))

    def drawn(self, drawn: np.ndarray, came: np.ndarray, known: np.ndarray | None = None) -> "TwoArms":
        """With a window of rows, of which those at `drawn` are the candidate's."""
        sides = [arm(came[some], None if known is None else known[some]) for some in (drawn, ~drawn)]
        return self.grown(sides[0], sides[1])

    def _with(self, arm: Arm, window: Arm) -> Arm:
        if not math.isfinite(self.high):
            return arm + window
        return arm.grown(window, arm.mean if arm.rows else (self.low + self.high) / 2)


def arm(came: np.ndarray, known: np.ndarray | None = None) -> Arm:
    return arm_of(came.tolist(), known=[] if known is None else known.tolist())
