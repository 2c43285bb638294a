"""Whether a window of traffic is still what the reference says, column by column; pure.

There is an alarm where something changed that is large enough to matter (`floor`, beyond what few rows are off by anyway), and
chance would bring that about less often than once in so many windows, all columns together, however long it is watched.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from falaj.base.values import value
from falaj.monitoring.references import Column, Reference
from falaj.statistics.detectors import Alternatives, Detector, alternatives, fresh, reference_shares, threshold, watched

MOST_POOLED: Final = 60  # windows that an effect is measured over, where they have `ENOUGH` rows
ENOUGH: Final = 500
LONGEST: Final = 200  # windows, where they have few rows each
# A change is said to begin in that window from which on it looks strongest, and is looked at after each: among many small ones
# that makes it look larger than it is, by as much as chance does once in their square. One or two are no choice.
_NO_CHOICE: Final = 2
_SUSPICION: Final = 0.5  # of the threshold: from here on it is worth to measure over several windows
_MOST_EVIDENCE: Final = 12.0  # beyond the threshold: what has drifted for a month should not take a month to be well again


@value
class Rule:
    floor: float
    one_in: int


@value
class Standing:
    """What is kept between windows: the detectors, by label, and by slot where there is a season: together they bring no more
    false alarms than one would, for each sees its own windows alone. `starts` are the beginnings of the last windows they saw,
    the newest first. Numbers only."""

    detectors: dict[str, Detector]
    windows: int = 0
    starts: tuple[int, ...] = ()


@value
class Outcome:
    """Of one column in one window. `evidence` 1.0 is the threshold; `since` is how many windows ago the change began, as far
    back as effects are measured, and `began` how many windows there were before it."""

    column: str
    effect: float
    evidence: float
    missing: float
    outside: float
    drifting: bool
    since: int = 0
    began: int = 0

    @property
    def over(self) -> int:
        """So many windows, up to this one, the effect is measured over."""
        return max(1, self.since) if self.evidence >= _SUSPICION else 1


Pooled = Callable[[str, int], Sequence[int]]  # counts of a column over the last so many windows, this one included


def decided(
    reference: Reference, standing: Standing, slot: str, counts: Mapping[str, Sequence[int]], rule: Rule, pooled: Pooled
) -> tuple[Standing, list[Outcome]]:
    """After one more window. A column that is not settled, or has no reference for this slot, is passed over."""
    ready = [one for one in reference.columns if one.settled]
    needed = threshold(len(ready), rule.one_in)
    detectors, outcomes = dict(standing.detectors), []
    for column in ready:
        seen = counts.get(column.label, ())
        usual = column.counts.get(slot)
        if usual is None or len(seen) != column.bins or not sum(seen):
            continue
        bets, key = _bets(usual, column.ordered), f"{column.label}@{slot}" if slot else column.label
        before = detectors.get(key) or fresh(bets)
        if len(before.bets) != len(bets.stakes):  # bins were chosen anew
            before = fresh(bets)
        after = watched(before, seen, bets)
        detectors[key] = _bounded(after.detector, needed)
        evidence = after.evidence / needed
        since = after.detector.windows - after.since
        back, measured = min(since, MOST_POOLED), seen
        if evidence >= _SUSPICION and back > 1:
            back, measured = _measured(column.label, since, pooled)
        far, rows = distance(column, usual, measured), sum(seen)
        certain = beyond_chance(column, usual, measured, (back / _NO_CHOICE) ** 2)
        outcomes.append(
            Outcome(
                column=column.label,
                effect=far,
                evidence=evidence,
                missing=seen[-1] / rows,
                outside=outside_of(column, seen) / rows,
                drifting=evidence >= 1 and certain >= rule.floor,
                since=back,
                began=after.since,
            )
        )
    return replace(standing, detectors=detectors, windows=standing.windows + 1), outcomes


def begun(standing: Standing, at: int) -> Standing:
    """With the beginning of one more window."""
    return replace(standing, starts=(at, *standing.starts)[:LONGEST])


def _measured(label: str, since: int, pooled: Pooled) -> tuple[int, Sequence[int]]:
    """Over how many windows an effect is measured, and their counts: sixty rows of a quiet endpoint are far from anything."""
    back = min(since, MOST_POOLED)
    counts = pooled(label, back)
    further = min(since, LONGEST, back * ENOUGH // max(1, sum(counts)))
    return (further, pooled(label, further)) if further > back else (back, counts)


def beyond_chance(column: Column, usual: Sequence[int], seen: Sequence[int], one_in: float) -> float:
    """The distance, less what so many rows seem to be apart by chance at most once in so many times, by the inequality of
    Dvoretzky, Kiefer and Wolfowitz. Of kinds each is off by a little, which adds up: no more is told than lies beyond that."""
    known, rows = max(1, sum(usual)), max(1, sum(seen))
    spread = math.sqrt(1 / rows + 1 / known)
    certain = distance(column, usual, seen) - spread * math.sqrt(math.log(max(1.0, one_in)) / 2)
    if column.ordered:
        return certain
    shares = np.asarray(usual, dtype=np.float64) / known
    more, off = np.asarray(seen, dtype=np.float64) / rows - shares, spread * np.sqrt(shares * (1 - shares))
    return min(certain, max(float(np.maximum(side - off, 0).sum()) for side in (more, -more)))


def distance(column: Column, usual: Sequence[int], seen: Sequence[int]) -> float:
    """From 0 to 1: of numbers the largest distance of the cumulated shares, of kinds the share of rows that are of another; or
    how many more rows, or fewer, are missing, where that is further."""
    first, second = (np.asarray(one, dtype=np.float64) / max(1, sum(one)) for one in (usual, seen))
    missing = abs(float(first[-1] - second[-1]))
    if column.ordered:
        return max(missing, float(np.abs(np.cumsum(first[:-1]) - np.cumsum(second[:-1])).max()))
    return float(np.abs(first - second).sum() / 2)


def encode(standing: Standing) -> str:
    return msgspec.json.encode(standing).decode()


def decode(text: str) -> Standing:
    return msgspec.json.decode(text, type=Standing) if text else Standing(detectors={})


def outside_of(column: Column, seen: Sequence[int]) -> int:
    """Rows beyond what the reference has, or of kinds that it has not."""
    return seen[0] + seen[-2] if column.ordered else seen[-2]


def _bounded(detector: Detector, needed: float) -> Detector:
    """Bets that are made smaller bring no more false alarms than before."""
    most = needed + _MOST_EVIDENCE
    return replace(
        detector, bets=tuple(min(one, most) for one in detector.bets), best=tuple(min(one, most) for one in detector.best)
    )


@lru_cache(maxsize=4096)
def _bets(usual: tuple[int, ...], ordered: int) -> Alternatives:
    return alternatives(reference_shares(usual), ordered=ordered, rows=sum(usual))
