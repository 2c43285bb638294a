"""What a test has come to, as sums that are grown batch by batch: of each metric, by arm. Pure; `contests` in
`falaj.statistics` has the intervals, and no order in which arms and their units come can lead them astray."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import msgspec

from falaj.base.values import value
from falaj.monitoring.abtests.outcomes import Seen, bounds_of
from falaj.monitoring.figuring import LEAST_ROWS
from falaj.monitoring.operations.abtests import Metric
from falaj.statistics.arms import Arm, arm_of
from falaj.statistics.contests import Contest, of_bounded, of_means
from falaj.statistics.intervals import Interval


@value
class Followed:
    """One metric. Outcomes without bounds are counted from `zero` on and what was known of units from `known_zero` on, about
    where they lie, so that sums of squares stay exact; a unit of which nothing was known counts as if it lay there. `left` is
    what the incumbent had come to when a candidate went out, which is held against that from then on. `repeated` units came
    again after they had counted."""

    arms: dict[int, Arm]
    left: dict[int, Arm]
    zero: float = 0.0
    known_zero: float | None = None
    repeated: int = 0
    crossed: int = 0
    outside: int = 0

    def units(self, revision: int) -> int:
        return self.arms[revision].rows if revision in self.arms else 0

    def mean(self, revision: int) -> float:
        """Of a ratio the ratio; not a number before there are units enough: of one, it would be what that unit brought."""
        return self.zero + self.arms[revision].mean if self.units(revision) >= LEAST_ROWS else math.nan


@value
class Calls:
    """Of one revision, since the test began: all, those that failed, those beyond the latency objective."""

    requests: int = 0
    errors: int = 0
    slow: int = 0

    def __add__(self, other: "Calls") -> "Calls":
        return Calls(requests=self.requests + other.requests, errors=self.errors + other.errors, slow=self.slow + other.slow)


@value
class Standing:
    """The first of `metrics` is the one that decides, the others are guardrails that are metrics, in their order. `out` are the
    candidates of which something was concluded for good. A point of the chart is kept of every `stride` batches; `mismatch`
    says that people were told of one."""

    metrics: tuple[Followed, ...]
    calls: dict[int, Calls]
    out: dict[int, str]
    batches: int = 0
    stride: int = 1
    mismatch: bool = False


def begun(metrics: int) -> Standing:
    return Standing(metrics=tuple(Followed(arms={}, left={}) for _ in range(metrics)), calls={}, out={})


def encode(standing: Standing) -> str:
    return msgspec.json.encode(standing).decode()


def decode(text: str) -> Standing:
    return msgspec.json.decode(text, type=Standing)


def grown(metric: Metric, followed: Followed, units: Iterable[Seen], incumbent: int, shares: Mapping[int, int]) -> Followed:
    """With the units of one batch, none of which had counted before. `shares` are of the incumbent and of the candidates that
    are not out."""
    by_arm: dict[int, list[Seen]] = {revision: [] for revision in shares}
    for unit in units:
        by_arm[unit.revision].append(unit)
    followed = _with_zeros(metric, followed, [unit for some in by_arm.values() for unit in some])
    expected, arms = _expected(metric, followed), dict(followed.arms)
    for revision, some in by_arm.items():
        if some:
            arms[revision] = _with(metric, arms.get(revision, Arm()), _window(followed, some), expected)
    gone = {one: followed.arms.get(incumbent, Arm()) for one in followed.arms if one not in shares and one not in followed.left}
    return replace(followed, arms=arms, left=followed.left | gone)


def contest(metric: Metric, followed: Followed, candidate: int, incumbent: int, shares: Mapping[int, int]) -> Contest:
    """Nothing is known of it before both arms have units enough to be told of."""
    share = shares[candidate] / (shares[candidate] + shares[incumbent])
    mine, other = followed.arms.get(candidate, Arm()), followed.left.get(candidate, followed.arms.get(incumbent, Arm()))
    if min(mine.rows, other.rows) < LEAST_ROWS:
        mine = other = Arm()
    if metric.kind == "mean":
        return of_means(share, mine, other)
    low, high = bounds_of(metric)
    return of_bounded(share, mine, other, high - low)


def interval(contest: Contest, confidence: float) -> Interval:
    """Of the difference; bounded outcomes lie no farther apart than their bounds."""
    found, width = contest.interval(confidence), contest.width
    if not width:
        return found
    return Interval(at=found.at, low=max(found.low, -width), high=min(found.high, width))


def _with_zeros(metric: Metric, followed: Followed, units: Sequence[Seen]) -> Followed:
    """Ratios have no other zero than their own."""
    known = [unit.known for unit in units if unit.known is not None]
    if followed.known_zero is None and known:
        followed = replace(followed, known_zero=fmean(known))
    if metric.kind == "mean" and not metric.per and not followed.arms and units:
        followed = replace(followed, zero=fmean(unit.came for unit in units))
    return followed


def _with(metric: Metric, arm: Arm, window: Arm, expected: float) -> Arm:
    if metric.kind == "mean":
        return arm + window
    return arm.grown(window, arm.mean if arm.rows else expected)


def _expected(metric: Metric, followed: Followed) -> float:
    """Of a unit of an arm of which nothing came yet: what all others brought, or the middle of what can be."""
    rows, came = sum(arm.rows for arm in followed.arms.values()), math.fsum(arm.came for arm in followed.arms.values())
    if rows:
        return came / rows
    low, high = bounds_of(metric)
    return (low + high) / 2


def _window(followed: Followed, units: Sequence[Seen]) -> Arm:
    known_zero = followed.known_zero or 0.0
    return arm_of(
        came=[unit.came - followed.zero for unit in units],
        per=[unit.per for unit in units],
        known=[0.0 if unit.known is None else unit.known - known_zero for unit in units],
    )
