"""Service-level objectives: how fast the budget of errors is spent, and what is left of it.

An objective of 99.9 % over 30 days leaves one row in a thousand to go wrong. Spending just that is a burn rate of 1. What burns
fast is to wake somebody, what burns slowly is to be looked at by day: a long window says that it matters, and a short one, of
which both must burn, that it has not ended already.
"""

import math
from collections.abc import Iterable
from typing import Final

from falaj.base.values import value

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
DAY: Final = 86400.0


@value
class Count:
    """Rows that ended well and badly in a stretch of time, until `at` (in seconds)."""

    at: float
    good: int
    bad: int


@value
class Objective:
    """`share` of the rows are to end well over `period` seconds."""

    share: float
    period: float = 30 * DAY

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or self.period <= 0:
            raise ValueError(f"An objective is a share between 0 and 1 over some time, not {self.share} over {self.period} s.")


@value
class Rule:
    """Burns where both windows spend at least `rate` times the budget. `urgent` ones are to wake somebody."""

    rate: float
    long: float
    short: float
    urgent: bool


# As in the Site Reliability Workbook: 2 % of 30 days' budget within an hour, 5 % within six, 10 % within three days.
RULES: Final = (
    Rule(rate=14.4, long=_HOUR, short=5 * _MINUTE, urgent=True),
    Rule(rate=6.0, long=6 * _HOUR, short=30 * _MINUTE, urgent=True),
    Rule(rate=1.0, long=3 * DAY, short=6 * _HOUR, urgent=False),
)


@value
class Burn:
    """`long` and `short` are the rates in the two windows of the rule."""

    rule: Rule
    long: float
    short: float

    @property
    def burns(self) -> bool:
        return min(self.long, self.short) >= self.rule.rate


@value
class Budget:
    """`left` is a share of what the rows of the period allow; below nought it is overspent. At the rate of the last hour, the
    rest lasts for `lasts` seconds."""

    left: float
    lasts: float


def burns(counts: Iterable[Count], objective: Objective, now: float) -> tuple[Burn, ...]:
    """By each rule, the most urgent first. Counts from the future, as of clocks that are ahead, do not count yet."""
    seen = tuple(counts)
    return tuple(
        Burn(rule=rule, long=rate(seen, objective, now, rule.long), short=rate(seen, objective, now, rule.short))
        for rule in RULES
    )


def rate(counts: Iterable[Count], objective: Objective, now: float, window: float) -> float:
    """How many times the budget was spent in so many seconds; 0 where there were no rows."""
    good, bad = _within(counts, now, window)
    return bad / (good + bad) / (1 - objective.share) if bad else 0.0


def budget(counts: Iterable[Count], objective: Objective, now: float) -> Budget:
    seen = tuple(counts)
    good, bad = _within(seen, now, objective.period)
    allowed = (good + bad) * (1 - objective.share)
    left = 1 - bad / allowed if allowed else 1.0
    fast = rate(seen, objective, now, _HOUR)
    return Budget(left=left, lasts=max(0.0, left) * objective.period / fast if fast else math.inf)


def _within(counts: Iterable[Count], now: float, window: float) -> tuple[int, int]:
    found = [one for one in counts if now - window < one.at <= now]
    return sum(one.good for one in found), sum(one.bad for one in found)
