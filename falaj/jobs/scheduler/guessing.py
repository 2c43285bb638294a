"""How long jobs will take and which will come, as uncertain as it is: drawn from what happened of late.

Each draw takes a part of the recent past for the whole: what is common to all jobs, such as a week of long ones, is then as
uncertain as what is each one's own.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from statistics import NormalDist
from typing import Final

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.jobs.scheduler.facts import Recent, Took
from falaj.jobs.scheduler.playing import Arrival
from falaj.jobs.scheduler.values import Job

_ENOUGH: Final = 20  # samples for a kind of job to be judged by its own
_FEW: Final = 4  # longer than a job has run already, below which the rest of the samples say nothing about it
_LEAST_PART: Final = 0.3  # of the recent past that a draw takes for the whole
_LONGEST_TAIL: Final = 30.0  # times what it has taken already is the longest guess
_KIN_SPREAD: Final = 0.3  # of the logarithm: how much one like it may differ
_ALIKE: Final = 10  # times as long as the shortest of its like is the longest, where they are alike
_DECIDED_BY_KIN: Final = 3  # others like it that were done count for more than what was declared
_IN_COMMON: Final = 1.0  # of the logarithm: what one user submits of late is longer, or shorter, than what others do
_NOBODY_KNOWS: Final = 1.6  # of the logarithm: a job of which nothing at all is known takes an hour, give or take this


def _quantiles(middle: float, spread: float, many: int) -> list[float]:
    normal = NormalDist()
    return [middle * math.exp(spread * normal.inv_cdf((place + 0.5) / many)) for place in range(many)]


_PRIOR: Final = _quantiles(HOUR, _NOBODY_KNOWS, 9)
_PRIOR_RATIOS: Final = _quantiles(0.8, 0.6, 9)


class Samples:
    """Sorted numbers that stand for what is possible."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._sorted = sorted(numbers)

    def beyond(self, least: float) -> int:
        return len(self._sorted) - bisect_right(self._sorted, least)

    def draw(self, chance: Random, least: float) -> float:
        """One that is more than `least`; beyond the last that was seen it may be anything, the longer the less likely."""
        first = bisect_right(self._sorted, least)
        rest = len(self._sorted) - first
        if rest < _FEW:
            return _lasting(chance, max(least, self._sorted[-1] if self._sorted and rest else 0, SECOND))
        place = chance.random() * (rest + 1)
        low, part = int(place), place - int(place)
        if low == rest:
            return _lasting(chance, self._sorted[-1])
        before = self._sorted[first + low - 1] if low else max(least, self._sorted[first] * 0.5)
        return before + (self._sorted[first + low] - before) * part


def _lasting(chance: Random, already: float) -> float:
    """What has lasted so long is as likely as not to last as long again."""
    return already * min(_LONGEST_TAIL, 1 / max(1e-9, 1 - chance.random()))


class Guess:
    """One draw's view of the recent past."""

    def __init__(self, recent: Recent, chance: Random) -> None:
        self._recent = recent
        self._random = chance
        # Of their own, so that one job more among those that wait does not change who comes.
        self._coming = Random(chance.random())  # nosec B311 - for playing, not for secrets
        took = _a_part(recent.took, chance)
        expected = [one for one in took if one.expected]
        self._ratios = Samples([*_some(_PRIOR_RATIOS, len(expected)), *(one.took / one.expected for one in expected)])
        self._all = Samples([*_some(_PRIOR, len(took)), *(float(one.took) for one in took)])
        self._in_common: dict[tuple[str, str, str], float] = {}
        self._likes: dict[str, Sequence[int]] = {}
        self._by: dict[tuple[str, int], Samples] = {}
        for place, samples in _grouped(took).items():
            if len(samples) >= _ENOUGH:
                self._by[place] = Samples(samples)

    def takes(self, job: Job, ran: int) -> int:
        """In all, of one that has run for so long already."""
        drawn = round(self._takes(job, ran))
        return max(ran + 1, min(drawn, job.timeout) if job.timeout else drawn)

    def _takes(self, job: Job, ran: int) -> float:
        chance = self._random
        like = self._like(self._recent.kin.get(job.id, ""))
        if like and (len(like) >= _DECIDED_BY_KIN or not job.duration):
            longer = [one for one in like if one * 1.2 > ran]
            if longer:
                drawn = chance.choice(longer) * chance.lognormvariate(0.0, _KIN_SPREAD)
                return drawn if drawn > ran else ran + chance.random() * max(0.1 * ran, SECOND)
        elif job.duration:
            return job.duration * self._ratios.draw(chance, ran / job.duration)
        common = self._common(job)
        for place in ((job.queue, _width(job)), (job.queue, -1), ("", _width(job))):
            samples = self._by.get(place)
            if samples is not None and samples.beyond(ran / common) >= _FEW:
                return samples.draw(chance, ran / common) * common
        return self._all.draw(chance, ran / common) * common

    def _like(self, kin: str) -> Sequence[int]:
        """What the last of its like took, drawn again: the more they differ, the less is known of the next ones. Those that
        differ too much have nothing in common but a name."""
        learned = self._recent.learned.get(kin, ())
        if learned and kin not in self._likes:
            alike = max(learned) <= _ALIKE * min(learned)
            self._likes[kin] = self._random.choices(learned, k=len(learned)) if alike else ()
        return self._likes.get(kin, ())

    def _common(self, job: Job) -> float:
        """People submit many of a kind at once: in one draw they are all long, or all short."""
        owner = (job.queue, job.project, job.user)
        known = self._in_common.get(owner)
        if known is None:
            known = self._in_common[owner] = self._random.lognormvariate(0.0, _IN_COMMON)
        return known

    def to_come(self, now: Moment, every: int) -> Iterator[Arrival]:
        """Jobs that will be submitted, as they were of late, stretch after stretch; one in `every`, that much longer."""
        came, since, chance = self._recent.came, self._recent.since, self._coming
        span = now - since
        if not came or span <= 0:
            return
        moments = [int(job.submitted) for job in came]
        at, number = int(now), 0
        while True:
            first = since + chance.random() * span
            stretch = span * (_LEAST_PART / 2 + chance.random() * (1 - _LEAST_PART))
            place = bisect_right(moments, first)
            for offset in range(len(came)):
                job = came[(place + offset) % len(came)]
                later = (job.submitted - first) % span
                if later > stretch:
                    break
                if every > 1 and chance.random() * every >= 1:
                    continue
                number += 1
                coming = replace(
                    job, id=f"+{number}", submitted=Moment(int(at + later)), served=0, not_before=Moment(0), deadline=None
                )
                yield Arrival(job=coming, takes=every * self.takes(job, 0))
            at = int(at + stretch)


def _width(job: Job) -> int:
    return job.count * job.shape.gpus


def _grouped(took: Sequence[Took]) -> dict[tuple[str, int], list[float]]:
    groups: dict[tuple[str, int], list[float]] = {}
    for one in took:
        for place in ((one.queue, one.cards), (one.queue, -1), ("", one.cards)):
            groups.setdefault(place, []).append(float(one.took))
    return groups


def _a_part(took: Sequence[Took], chance: Random) -> Sequence[Took]:
    """A stretch of it, for what was so then may be so again."""
    size = math.ceil(len(took) * (_LEAST_PART + chance.random() * (1 - _LEAST_PART)))
    first = chance.randrange(len(took) - size + 1) if took else 0
    return took[first : first + size]


def _some(prior: Sequence[float], known: int) -> Sequence[float]:
    """What is thought before anything is known, and less of it the more is."""
    return prior if known < _ENOUGH else ()
