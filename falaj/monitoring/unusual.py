"""Whether an hour's traffic is what the same hour of other days was: calls that break down or explode, and shares of calls that
fail or are refused. Pure.

An hour is unusual where it is further from the median of the other days than five times what four of five hours stay within,
and by an amount that matters. Where the logarithms of hours have no longer tails than a Laplace distribution, that is a false
alarm less often than once in a thousand hours, all three figures together. One hour in five may have gone wrong before without
hiding what goes wrong now. A holiday is unusual, and told.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

from falaj.base.clock import HOUR, Moment
from falaj.base.values import value
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.objectives import percent

FEWEST_DAYS: Final = 7
MOST_DAYS: Final = 28
_TIMES: Final = 5.0
_WITHIN: Final = 0.8  # of the hours, of which the rest may have gone wrong
_FEWEST_CALLS: Final = 30  # of an hour, before a share of them says anything
_FACTOR: Final = 2.0  # by which calls change before it matters
_SHARE: Final = 0.01  # by which the share of bad calls rises before it matters
_DAY: Final = 24


@value
class Hour:
    """What all live revisions did in an hour."""

    calls: int
    failed: int
    refused: int


@value
class Verdict:
    """`figures` are those that are unusual, in words; none where all is usual, or nothing can be said yet."""

    sentence: str
    figures: tuple[str, ...] = ()

    @property
    def unusual(self) -> bool:
        return bool(self.figures)


@value
class _Figure:
    """`scale` makes the spread of a figure independent of its size, and gives nothing where an hour says too little; `noise` is
    what counting alone makes of it, for so many calls and so many usual ones."""

    name: str
    scale: Callable[[Hour], float | None]
    noise: Callable[[float, float], float]


def judged(hours: Mapping[int, Hour], last: int) -> Verdict:
    """`hours` by their number since 1970, of which `last` is held against the others."""
    now = hours.get(last)
    days = sum(last - _DAY * back in hours for back in range(1, MOST_DAYS + 1))
    if now is None or days < FEWEST_DAYS:
        return Verdict(sentence=f"The traffic of {days} other days is known; from {FEWEST_DAYS} on, hours are compared.")
    known = {number: hour for number, hour in hours.items() if last - _DAY * MOST_DAYS <= number <= last}
    usual = _usual(known, last)
    found = [words for figure in _FIGURES if (words := _unusual(figure, known, last, now, usual)) is not None]
    if found:
        return Verdict(sentence=" ".join(found), figures=tuple(found))
    return Verdict(
        sentence=f"{now.calls:,} calls in the last whole hour; {usual:,.0f} are usual for that hour, by {days} other days."
    )


def sightings_of(verdict: Verdict, last: int) -> list[Sighting]:
    if not verdict.unusual:
        return []
    return [
        Sighting(
            key="service/traffic",
            kind="service",
            severity="warning",
            title="The traffic is not what it usually is at this hour",
            sentences=verdict.figures,
            facts={"hour": str(Moment(last * HOUR))},
            since=Moment(last * HOUR),
        )
    ]


def _unusual(figure: _Figure, hours: Mapping[int, Hour], last: int, now: Hour, usual: float) -> str | None:
    scaled = {number: one for number, hour in hours.items() if (one := figure.scale(hour)) is not None}
    if last not in scaled:
        return None
    distances = _distances(scaled)
    mine = distances.pop(last, None)
    if mine is None or len(distances) < _DAY * FEWEST_DAYS // 2:
        return None
    usually = sorted(abs(one) for one in distances.values())[int(_WITHIN * len(distances))]
    if abs(mine) <= _TIMES * max(usually, figure.noise(now.calls, usual)):
        return None
    return _words(figure.name, hours, last, now, usual, mine)


def _words(name: str, hours: Mapping[int, Hour], last: int, now: Hour, usual: float, mine: float) -> str | None:
    """Nothing where the change is too small to matter."""
    if name == "calls":
        if max(usual, now.calls) < _FEWEST_CALLS:
            return None
        if mine < 0 and now.calls * _FACTOR <= usual:
            return f"Calls broke down: {now.calls:,} in the last whole hour, where {usual:,.0f} are usual."
        if mine > 0 and now.calls >= usual * _FACTOR:
            return f"Calls exploded: {now.calls:,} in the last whole hour, where {usual:,.0f} are usual."
        return None
    share, others = _share(now, name), [one for hour in _others(hours, last) if (one := _share(hour, name)) is not None]
    if share is None or mine < 0 or share < median(others) + _SHARE or share < _FACTOR * median(others):
        return None
    did = "failed" if name == "failed" else "were refused for want of room"
    usually = percent(round(median(others), 4))
    return f"{percent(round(share, 4))} of {now.calls:,} calls {did} in the last whole hour; {usually} are usual."


def _distances(scaled: Mapping[int, float]) -> dict[int, float]:
    """Of each to the median of the same hour of all other days; of hours that are known of too few days, nothing."""
    by_hour: dict[int, list[int]] = {}
    for number in scaled:
        by_hour.setdefault(number % _DAY, []).append(number)
    found: dict[int, float] = {}
    for numbers in by_hour.values():
        if len(numbers) < FEWEST_DAYS:
            continue
        ordered = sorted(numbers, key=scaled.__getitem__)
        values = [scaled[number] for number in ordered]
        for place, number in enumerate(ordered):
            found[number] = values[place] - _median_without(values, place)
    return found


def _median_without(ordered: Sequence[float], place: int) -> float:
    """As if the one at this place were not there."""
    left = len(ordered) - 1
    low, high = ((left - 1) // 2, left // 2)
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


def _others(hours: Mapping[int, Hour], last: int) -> Sequence[Hour]:
    return [hour for number, hour in hours.items() if number % _DAY == last % _DAY and number != last]


def _usual(hours: Mapping[int, Hour], last: int) -> float:
    return median(hour.calls for hour in _others(hours, last))


def _share(hour: Hour, name: str) -> float | None:
    return None if hour.calls < _FEWEST_CALLS else (hour.failed if name == "failed" else hour.refused) / hour.calls


def _angle(name: str) -> Callable[[Hour], float | None]:
    def scale(hour: Hour) -> float | None:
        share = _share(hour, name)
        return None if share is None else math.asin(math.sqrt(min(1.0, share)))

    return scale


def _noise_of_share(calls: float, _usual: float) -> float:
    return 0.5 / math.sqrt(max(1.0, calls))


_FIGURES: Final = (
    _Figure(
        name="calls",
        scale=lambda hour: math.log(hour.calls + 1),
        noise=lambda calls, usual: 1 / math.sqrt(max(calls, usual) + 1),
    ),
    _Figure(name="failed", scale=_angle("failed"), noise=_noise_of_share),
    _Figure(name="refused", scale=_angle("refused"), noise=_noise_of_share),
)
