"""What is concluded of an A/B test, from what it has come to. Pure.

The chance of any false verdict, however often somebody looks, is at most `1 - confidence`: candidates share it evenly, and
guardrails together get a fifth of it where there are any. That units fit the shares is asked apart, with one false answer in a
thousand; while they do not, nothing that rests on units is concluded.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.monitoring.abtests import standing as standings
from falaj.monitoring.abtests.standing import Calls, Standing
from falaj.monitoring.operations.abtests import Design, Guardrail, Metric, State, Word
from falaj.statistics.contests import Contest, ratio_evidence
from falaj.statistics.intervals import Interval
from falaj.statistics.rates import evidence_of_more, least_excess

FOR_GUARDRAILS: Final = 0.2  # of what may go wrong
FALSE_MISMATCH: Final = 1e-3
_FOR_GOOD: Final = frozenset({"loser", "broken"})


@value
class Guarded:
    """How a candidate stands against one guardrail: `harm` is how much worse it is, `low` how much that is at least."""

    place: int
    incumbent: float
    candidate: float
    harm: float
    low: float
    broken: bool


@value
class Conclusion:
    """Of a look: what is now known `of` each candidate, who `leaves` before the test is over, and, once it is, the state it
    ends in; `winner` is 0 where there is none. `told` says that somebody has to hear of a mismatch."""

    of: dict[int, Word]
    leaves: tuple[int, ...] = ()
    state: State = "running"
    winner: int = 0
    told: bool = False


class Look:
    """One look at a test. `shares` are by revision, of all arms of the test."""

    def __init__(self, design: Design, incumbent: int, shares: Mapping[int, int], standing: Standing) -> None:
        self.design, self.incumbent, self.shares, self.standing = design, incumbent, shares, standing
        self.candidates = [one.revision for one in design.candidates]
        allowed = 1 - design.confidence
        self._rate = allowed * (1 - FOR_GUARDRAILS if design.guardrails else 1.0) / len(self.candidates)
        self._guard_rate = allowed * FOR_GUARDRAILS / (len(self.candidates) * max(1, len(design.guardrails)))

    def difference(self, candidate: int) -> Interval:
        """Of the metric that decides, as it is measured, whichever way is better."""
        return standings.interval(self._contest(candidate), 1 - self._rate)

    def mismatch(self, candidate: int) -> bool:
        """Whether the units of the candidate and the incumbent do not fit their shares."""
        arms = (candidate, self.incumbent)
        counts = [self.standing.metrics[0].units(one) for one in arms]
        found = ratio_evidence(counts, [self.shares[one] for one in arms]) if sum(counts) else 0.0
        return found >= math.log(len(self.candidates) / FALSE_MISMATCH)

    def word(self, candidate: int) -> Word:
        """What this look says of a candidate that is not out."""
        mismatch = self.mismatch(candidate)
        broken = [place for place in range(len(self.design.guardrails)) if self._is_broken(place, candidate)]
        if any(not mismatch or self.design.guardrails[place].of != "metric" for place in broken):
            return "broken"
        if mismatch:
            return "mismatch"
        sign = 1 if self.design.metric.better == "higher" else -1
        contest, confidence = self._contest(candidate), 1 - self._rate
        if contest.excludes(0.0, confidence):
            return "winner" if sign * contest.at > 0 else "loser"
        least = self.design.least_effect
        if least and abs(contest.at) < least and all(contest.excludes(end, confidence) for end in (-least, least)):
            return "same"
        return "open"

    def guarded(self, candidate: int) -> tuple[Guarded, ...]:
        """For people; `word` decides by the same."""
        return tuple(self._guarded(place, candidate) for place in range(len(self.design.guardrails)))

    # The parts

    def _contest(self, candidate: int, place: int = 0) -> Contest:
        metric = self._metric(place)
        return standings.contest(metric, self.standing.metrics[place], candidate, self.incumbent, self.shares)

    def _metric(self, place: int) -> Metric:
        return metrics_of(self.design)[place]

    def _is_broken(self, place: int, candidate: int) -> bool:
        guardrail = self.design.guardrails[place]
        if guardrail.of != "metric":
            shown = evidence_of_more(*self._counted(guardrail, candidate), guardrail.worst)
            return shown >= math.log(1 / self._guard_rate)
        contest, harm = self._guarding(place, candidate)
        return harm * contest.at > guardrail.worst and contest.excludes(harm * guardrail.worst, 1 - self._guard_rate)

    def _guarded(self, place: int, candidate: int) -> Guarded:
        guardrail = self.design.guardrails[place]
        broken = self._is_broken(place, candidate)
        if guardrail.of != "metric":
            hits, rows, other_hits, other_rows = self._counted(guardrail, candidate)
            rate, other = _share(hits, rows), _share(other_hits, other_rows)
            low = least_excess(hits, rows, other_hits, other_rows, math.log(1 / self._guard_rate))
            return Guarded(place=place, incumbent=other, candidate=rate, harm=rate - other, low=low, broken=broken)
        contest, harm = self._guarding(place, candidate)
        found = standings.interval(contest, 1 - self._guard_rate)
        means = [self.standing.metrics[self._place(place)].mean(one) for one in (self.incumbent, candidate)]
        low = found.low if harm > 0 else -found.high
        return Guarded(place=place, incumbent=means[0], candidate=means[1], harm=harm * found.at, low=low, broken=broken)

    def _guarding(self, place: int, candidate: int) -> tuple[Contest, int]:
        """The contest of a guardrail that is a metric, and which way is harm."""
        mine = self._place(place)
        return self._contest(candidate, mine), -1 if self._metric(mine).better == "higher" else 1

    def _place(self, guardrail: int) -> int:
        """Of a guardrail's metric among the metrics that are followed."""
        return 1 + sum(one.of == "metric" for one in self.design.guardrails[:guardrail])

    def _counted(self, guardrail: Guardrail, candidate: int) -> tuple[int, int, int, int]:
        of = [self.standing.calls.get(one, Calls()) for one in (candidate, self.incumbent)]
        hits = [one.errors if guardrail.of == "errors" else one.slow for one in of]
        return hits[0], of[0].requests, hits[1], of[1].requests


def metrics_of(design: Design) -> tuple[Metric, ...]:
    """All that are followed: the one that decides first."""
    return (design.metric, *(one.metric for one in design.guardrails if one.metric is not None))


def concluded(look: Look, now: Moment, ends: Moment) -> Conclusion:
    out = look.standing.out
    of: dict[int, Word] = {one: out[one] if one in out else look.word(one) for one in look.candidates}  # type: ignore[misc]
    found = Conclusion(of=of, told="mismatch" in of.values() and not look.standing.mismatch)
    if winners := [one for one in look.candidates if of[one] == "winner"]:
        sign = 1 if look.design.metric.better == "higher" else -1
        best = max(winners, key=lambda one: min(sign * end for end in _ends(look.difference(one))))
        return replace(found, state="won", winner=best)
    words = set(of.values())
    if not words & {"open", "mismatch"}:
        return replace(found, state="same" if "same" in words else "lost" if "loser" in words else "broken")
    if now >= ends:
        return replace(found, state="mismatch" if "mismatch" in words else "over")
    return replace(found, leaves=tuple(one for one in look.candidates if of[one] in _FOR_GOOD and one not in out))


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def _share(hits: int, rows: int) -> float:
    return min(hits, rows) / rows if rows else math.nan
