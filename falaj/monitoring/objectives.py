"""How calls do against what they are held to: what burns, what is left, and what people are told of it. Pure.

`statistics.burning` has the rules. A burn is told only where chance would hardly bring so many bad calls about: an endpoint
that answers ten calls an hour does not burn when one of them fails.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from falaj.base.clock import SECOND, Moment
from falaj.base.values import value
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.metrics_names import WINDOWS
from falaj.monitoring.operations.objectives import Burnt, ByRevision, ObjectiveStanding, ObjectiveState
from falaj.monitoring.operations.words import Objective
from falaj.serving.counts import Counts
from falaj.serving.latencies import BOUNDS
from falaj.statistics import burning
from falaj.statistics.burning import DAY, Budget, Burn, Count

_CHANCE: Final = 1e-4  # of so many bad calls where the objective is just kept; looked at every minute, so chosen small
_HOUR: Final = 3600
_BLAMED: Final = 0.5  # of the bad calls, from which on one revision is named
_WORDS: Final = {"availability": "Availability", "latency": "Latency"}


@value
class Stretch:
    """What one revision did from `at` to `until`."""

    at: int
    until: int
    revision: int
    counts: Counts


@value
class Standing:
    """How one objective stands; `by_revision` are good and bad calls of the last hour, `seen` those of each window."""

    objective: Objective
    good: int
    bad: int
    budget: Budget
    burns: tuple[Burn, ...]
    seen: Mapping[int, tuple[int, int]]
    rates: Mapping[int, float]
    by_revision: Mapping[int, tuple[int, int]]
    since: Moment | None

    @property
    def burning(self) -> Burn | None:
        """The most urgent rule that burns, and not by chance."""
        for burn in self.burns:
            good, bad = self.seen[int(burn.rule.long)]
            if burn.burns and _chance(bad, good + bad, 1 - self.objective.share) < _CHANCE:
                return burn
        return None

    @property
    def state(self) -> ObjectiveState:
        burn = self.burning
        if burn is not None:
            return "fast burn" if burn.rule.urgent else "slow burn"
        if not self.good + self.bad:
            return "quiet"
        return "spent" if self.budget.left <= 0 else "well"


def standings_of(
    objectives: Iterable[Objective], past: Mapping[Objective, Sequence[Count]], recent: Sequence[Stretch], now: Moment
) -> tuple[Standing, ...]:
    """In the order that they were written; there is one of a kind. `past`, by objective, is of the hours before `recent`."""
    return tuple(_standing(one, past.get(one, ()), recent, now) for one in objectives)


def counted(objective: Objective, hours: Iterable[Stretch]) -> tuple[Count, ...]:
    """What all revisions did, hour by hour."""
    found: dict[int, tuple[int, int]] = {}
    for one in hours:
        good, bad = good_and_bad(objective, one.counts)
        before = found.get(one.until, (0, 0))
        found[one.until] = before[0] + good, before[1] + bad
    return tuple(Count(at=until / SECOND, good=good, bad=bad) for until, (good, bad) in sorted(found.items()))


def sightings_of(standings: Iterable[Standing]) -> list[Sighting]:
    return [_sighting(one, burn) for one in standings if (burn := one.burning) is not None]


def shown(standing: Standing) -> ObjectiveStanding:
    revisions = sorted(standing.by_revision.items(), key=lambda one: (-one[1][1], one[0]))
    return ObjectiveStanding(
        objective=standing.objective,
        state=standing.state,
        good=standing.good,
        bad=standing.bad,
        left=round(standing.budget.left, 6),
        lasts=None if math.isinf(standing.budget.lasts) else int(standing.budget.lasts),
        windows=tuple(
            Burnt(window=WINDOWS[seconds], seconds=seconds, good=good, bad=bad, rate=round(standing.rates[seconds], 4))
            for seconds, (good, bad) in standing.seen.items()
        ),
        revisions=tuple(ByRevision(revision=number, good=good, bad=bad) for number, (good, bad) in revisions),
        sentence=_sentence(standing),
    )


def good_and_bad(objective: Objective, counts: Counts) -> tuple[int, int]:
    """Calls that were refused for want of room count as not answered; how long they took is not known, nor is it of those that
    failed."""
    if objective.kind == "availability":
        return max(0, counts.requests - counts.errors), counts.errors + counts.shed
    answered = sum(counts.latencies)
    within = _within(counts.latencies, objective.milliseconds / 1000)
    return within, answered - within


def percent(share: float) -> str:
    return f"{share * 100:.6g} %"


def lasting(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for word, unit in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds:.0f} seconds" if seconds >= 1 else "no time"


def _standing(objective: Objective, past: Sequence[Count], recent: Sequence[Stretch], now: Moment) -> Standing:
    held, at = burning.Objective(share=objective.share, period=objective.days * DAY), now / SECOND
    lately = [_count(objective, one) for one in recent]
    by_revision: dict[int, tuple[int, int]] = {}
    for stretch, one in zip(recent, lately, strict=True):
        if at - _HOUR < one.at <= at and (one.good or one.bad):
            before = by_revision.get(stretch.revision, (0, 0))
            by_revision[stretch.revision] = before[0] + one.good, before[1] + one.bad
    counts = (*past, *lately)
    good, bad = _sums(counts, at, held.period)
    burns = burning.burns(counts, held, at)
    rate = next((burn.rule.rate for burn in burns if burn.burns), None)
    return Standing(
        objective=objective,
        good=good,
        bad=bad,
        budget=burning.budget(counts, held, at),
        burns=burns,
        seen={seconds: _sums(counts, at, seconds) for seconds in WINDOWS},
        rates={seconds: burning.rate(counts, held, at, seconds) for seconds in WINDOWS},
        by_revision=by_revision,
        since=None if rate is None else _since(past, lately, rate * (1 - objective.share)),
    )


def _count(objective: Objective, stretch: Stretch) -> Count:
    good, bad = good_and_bad(objective, stretch.counts)
    return Count(at=stretch.until / SECOND, good=good, bad=bad)


def _since(past: Sequence[Count], lately: Sequence[Count], allowed: float) -> Moment | None:
    """The start of the first stretch of which at least this share was bad, and from which on all together was."""
    starts = [(one.at - 60, one) for one in lately] + [(one.at - _HOUR, one) for one in past]
    good, bad, found = 0, 0, None
    for start, one in sorted(starts, key=lambda pair: -pair[1].at):
        good, bad = good + one.good, bad + one.bad
        if one.bad and bad >= allowed * (good + bad) and one.bad >= allowed * (one.good + one.bad):
            found = Moment(int(start) * SECOND)
    return found


def _sighting(standing: Standing, burn: Burn) -> Sighting:
    objective, revision = standing.objective, _blamed(standing)
    facts = {
        "objective": objective.kind,
        "rate": round(burn.long, 2),
        "window": WINDOWS[int(burn.rule.long)],
        "left": round(standing.budget.left, 4),
    }
    return Sighting(
        key=f"service/{objective.kind}",
        kind="service",
        severity="critical" if burn.rule.urgent else "warning",
        title=f"{_WORDS[objective.kind]}: the budget of errors is spent {_times(burn.long)} too fast",
        sentences=_sentences(standing, burn),
        facts=facts if revision is None else facts | {"revision": revision},
        since=standing.since,
    )


def _sentences(standing: Standing, burn: Burn) -> tuple[str, ...]:
    objective, long = standing.objective, int(burn.rule.long)
    good, bad = standing.seen[long]
    did = "failed or were refused" if objective.kind == "availability" else f"took longer than {objective.milliseconds} ms"
    lately = "hour's" if long == _HOUR else f"{lasting(long)}'"
    share = percent(round(bad / (good + bad), 4))
    allowed = f"{percent(round(1 - objective.share, 8))} may, over {objective.days} days."
    told = [f"Of the last {lately} {good + bad:,} calls {share} {did}; {allowed}"]
    left = standing.budget.left
    if left <= 0:
        told.append(f"The budget of {objective.days} days is spent.")
    elif math.isfinite(standing.budget.lasts):
        told.append(
            f"As it goes on now, the {percent(round(left, 3))} that are left last for {lasting(standing.budget.lasts)}."
        )
    revision = _blamed(standing)
    if revision is not None and len(standing.by_revision) > 1:
        calls = sum(map(sum, standing.by_revision.values()))
        all_bad = sum(one for _, one in standing.by_revision.values())
        mine = standing.by_revision[revision]
        told.append(
            f"Revision {revision} has {percent(round(mine[1] / all_bad, 3))} of the last hour's bad calls and "
            f"{percent(round(sum(mine) / calls, 3))} of all."
        )
    return tuple(told)


def _blamed(standing: Standing) -> int | None:
    """The revision that has most of the bad calls of the last hour."""
    if not standing.by_revision:
        return None
    revision, (_, bad) = max(standing.by_revision.items(), key=lambda one: one[1][1])
    all_bad = sum(one for _, one in standing.by_revision.values())
    return revision if all_bad and bad >= _BLAMED * all_bad else None


def _sentence(standing: Standing) -> str:
    """For people, in one line."""
    burn = standing.burning
    if burn is not None:
        return _sentences(standing, burn)[0] + f" That is {_times(burn.long)} too fast."
    if not standing.good + standing.bad:
        return "There were no calls to hold it against."
    left = standing.budget.left
    kept = percent(round(standing.good / (standing.good + standing.bad), 6))
    if left <= 0:
        return f"{kept} of the calls were good; the budget of errors is overspent by {percent(round(-left, 3))}."
    return f"{kept} of the calls were good; {percent(round(left, 3))} of the budget of errors are left."


def _times(rate: float) -> str:
    return f"{rate:.1f} times" if rate < 10 else f"{rate:,.0f} times"


def _sums(counts: Sequence[Count], now: float, window: float) -> tuple[int, int]:
    found = [one for one in counts if now - window < one.at <= now]
    return sum(one.good for one in found), sum(one.bad for one in found)


def _within(latencies: Sequence[int], seconds: float) -> int:
    """Calls that took no longer, taken as evenly spread in the bucket that the bound falls into."""
    if not latencies:
        return 0
    bucket = min(bisect_left(BOUNDS, seconds), len(BOUNDS) - 1)
    lower, upper = BOUNDS[bucket - 1] if bucket else 0.0, BOUNDS[bucket]
    part = min(1.0, (seconds - lower) / (upper - lower))
    return sum(latencies[:bucket]) + round(latencies[bucket] * part)


def _chance(bad: int, calls: int, share: float) -> float:
    """That as many of the calls go wrong, or more, where each does with this chance: at most this much (Chernoff)."""
    seen = bad / calls if calls else 0.0
    if seen <= share:
        return 1.0
    ratio = seen * math.log(seen / share)
    if seen < 1:
        ratio += (1 - seen) * math.log((1 - seen) / (1 - share))
    return math.exp(-calls * ratio)
