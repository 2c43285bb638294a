"""Before an experiment: how many rows it takes to see an effect, which effect so many rows show, and how long that lasts.

The answers are those of the confidence sequences that decide (`contests`): a sequence that may be looked at any time takes more
rows than a test that is looked at once, and what is promised here is what it delivers.
"""

import math
from collections.abc import Callable
from typing import Final

from falaj.base.values import value
from falaj.statistics.contests import Contest, Side
from falaj.statistics.distributions import normal_quantile

_HALVINGS: Final = 60
_MOST: Final = 1e15  # rows that nobody has


@value
class Outcome:
    """What is measured of a row: its mean and its standard deviation with what is there now, and how far apart the least and
    the largest are that can be; 0 where nobody knows."""

    mean: float
    deviation: float
    width: float = 0.0


@value
class Design:
    """`share` of the rows of the two arms are the candidate's. Of many experiments with the effect, a share of `power` is
    decided by the rows that are promised."""

    share: float = 0.5
    confidence: float = 0.95
    power: float = 0.8

    def __post_init__(self) -> None:
        if not all(0 < one < 1 for one in (self.share, self.confidence, self.power)):
            raise ValueError(
                f"Share, confidence and power lie between 0 and 1, not at {self.share}, {self.confidence}, {self.power}."
            )


USUAL: Final = Design()


def binary(share: float) -> Outcome:
    """Of something that happens, or not, to so many rows."""
    return Outcome(mean=share, deviation=math.sqrt(share * (1 - share)), width=1.0)


def rows_needed(outcome: Outcome, effect: float, design: Design = USUAL) -> float:
    """Of both arms together, to see that the candidate brings so much more, or less, per row; no end of them without an
    effect."""
    if not effect or not math.isfinite(effect):
        return math.inf

    def enough(rows: float) -> bool:
        return _seen(outcome, effect, rows, design)

    rows = math.ceil(_least(enough, _MOST))
    return float(rows) if rows < _MOST else math.inf


def least_effect(outcome: Outcome, rows: float, design: Design = USUAL) -> float:
    """What so many rows of both arms together show, as a rise per row; no end of it where they show nothing."""

    def enough(effect: float) -> bool:
        return _seen(outcome, effect, rows, design)

    most = outcome.width or 1e6 * max(outcome.deviation, 1e-300)
    found = _least(enough, most)
    return found if found < most else math.inf


def duration(rows: float, rows_per_second: float) -> float:
    """In seconds, at such a traffic of both arms together."""
    return rows / rows_per_second if rows_per_second > 0 else math.inf


def _seen(outcome: Outcome, effect: float, rows: float, design: Design) -> bool:
    """Whether the contest would be decided by then: arms have the rows of their shares and spread as they should, and the
    difference is as small as it is with all but a share of `power`."""
    if rows <= 0:
        return False
    candidate, incumbent = rows * design.share, rows * (1 - design.share)
    then, now = _spread_with(outcome, effect), outcome.deviation**2
    seen = abs(effect) - normal_quantile(design.power) * math.sqrt(then / candidate + now / incumbent)
    contest = Contest(
        share=design.share,
        candidate=Side(rows=candidate, mean=seen, spread=candidate * then),
        incumbent=Side(rows=incumbent, mean=0.0, spread=incumbent * now),
        width=outcome.width,
    )
    return seen > 0 and contest.excludes(0.0, design.confidence)


def _spread_with(outcome: Outcome, effect: float) -> float:
    """The variance under the candidate: of what happens or not it changes with the mean, of all else it is taken to stay."""
    mean = outcome.mean + effect
    happens = outcome.width == 1 and math.isclose(outcome.deviation**2, outcome.mean * (1 - outcome.mean), abs_tol=1e-12)
    return mean * (1 - mean) if happens and 0 <= mean <= 1 else outcome.deviation**2


def _least(enough: Callable[[float], bool], most: float) -> float:
    """At which it is enough, by halving the logarithm of the distance."""
    low, high = most * 1e-18, most
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
