"""What is said before a test: which effect it can show, how many units that takes, and how many days. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from falaj.base.clock import DAY
from falaj.base.values import value
from falaj.monitoring.abtests.outcomes import Seen, bounds_of
from falaj.monitoring.abtests.words import amount, level, metric_name, number, span
from falaj.monitoring.figuring import LEAST_ROWS
from falaj.monitoring.operations.abtests import Design, Expected, Metric
from falaj.statistics import planning

LOOKED_AT: Final = 30  # days
_GUARDRAILS_LEAVE: Final = 0.8


@value
class Recent:
    """What is known of the last days: the units that were served by the incumbent, as far as they were looked at; how many rows
    a day came to be known and how many units those were, of all arms; calls a day. `history` is since when labels came."""

    units: tuple[Seen, ...]
    labelled: int
    units_per_day: float
    calls_per_day: float
    history: int = DAY


def expected(
    design: Design, incumbent: int, shares: Mapping[int, int], recent: Recent, named: Collection[str] = ()
) -> Expected:
    """`named` are the values that labels had lately."""
    metric = design.metric
    outcome, sentences = _outcome(metric, recent.units)
    per_day, guessed = recent.units_per_day, False
    if not per_day and recent.calls_per_day:
        per_day, guessed = recent.calls_per_day, True
    slowest = min((one.revision for one in design.candidates), key=lambda one: shares[one])
    both = shares[slowest] + shares[incumbent]
    allowed = (1 - design.confidence) * (_GUARDRAILS_LEAVE if design.guardrails else 1.0) / len(design.candidates)
    plan = planning.Design(share=shares[slowest] / both, confidence=1 - allowed, power=design.power)
    pair_per_day = per_day * both / sum(shares.values())
    known = outcome is not None
    needed = planning.rows_needed(outcome, design.least_effect, plan) if outcome is not None else math.nan
    least = planning.least_effect(outcome, pair_per_day * design.days, plan) if outcome is not None else math.nan
    days = planning.duration(needed, pair_per_day) if known else math.nan
    if len(recent.units) >= LEAST_ROWS and outcome is not None:
        known_of = f"{metric_name(metric).capitalize()} of revision {incumbent}"
        sentences.append(f"{known_of}: {level(metric, outcome.mean)} over {len(recent.units):,} units lately.")
    told = [*sentences, *_rates(recent, guessed)]
    told += _promises(design, needed, days, least, pair_per_day)
    told += _never_seen(design, named)
    return Expected(
        mean=outcome.mean if outcome is not None else math.nan,
        deviation=outcome.deviation if outcome is not None else math.nan,
        labelled=recent.labelled,
        calls_per_day=recent.calls_per_day,
        units_per_day=recent.units_per_day,
        units_needed=needed,
        days_needed=days,
        least_effect=least,
        sentences=tuple(told),
    )


def _outcome(metric: Metric, units: Sequence[Seen]) -> tuple[planning.Outcome | None, list[str]]:
    """From what the incumbent brought, as the contest will see it; where no more units are known than figures are told of, the
    worst there can be."""
    low, high = bounds_of(metric)
    width = 0.0 if metric.per or not math.isfinite(high - low) else high - low
    if len(units) >= LEAST_ROWS:
        mean, deviation = _spread(metric, units)
        return planning.Outcome(mean=mean, deviation=deviation, width=width), []
    little = (
        f"Of {metric_name(metric)} fewer than {LEAST_ROWS} units are known"
        if units
        else f"Nothing is known of {metric_name(metric)} yet"
    )
    if width:
        words = f"{little}: the plan is for the widest spread that can be."
        return planning.Outcome(mean=(low + high) / 2, deviation=width / 2, width=width), [words]
    return None, [f"{little}, so nobody can say how long it takes: send labels first."]


def _spread(metric: Metric, units: Sequence[Seen]) -> tuple[float, float]:
    """The mean, and the deviation of what is left once the denominator and the covariate have explained their part."""
    number = len(units)
    came, per = math.fsum(one.came for one in units), math.fsum(one.per for one in units)
    mean = came / per if per else math.nan
    left = [(one.came - mean * one.per) / (per / number or 1.0) for one in units]
    if metric.covariate and all(one.known is not None for one in units):
        known = [one.known or 0.0 for one in units]
        middle = math.fsum(known) / number
        spread = math.fsum((one - middle) ** 2 for one in known)
        slope = math.fsum(one * (other - middle) for one, other in zip(left, known, strict=True)) / spread if spread else 0.0
        left = [one - slope * (other - middle) for one, other in zip(left, known, strict=True)]
    return mean, math.sqrt(math.fsum(one * one for one in left) / (number - 1))


def _rates(recent: Recent, guessed: bool) -> list[str]:
    if recent.units_per_day:
        rate = f"Lately {recent.units_per_day:,.0f} units a day came to be known, of {recent.calls_per_day:,.0f} calls."
        short = f"Labels are known for {span(recent.history)} only: a whole day may bring more or fewer."
        return [rate, short] if recent.history < DAY else [rate]
    if guessed:
        return [f"No labels came lately: this counts on one for each of {recent.calls_per_day:,.0f} calls a day."]
    return ["Nobody called lately, so nobody can say how many days it takes."]


def _promises(design: Design, needed: float, days: float, least: float, per_day: float) -> list[str]:
    told = []
    if math.isfinite(needed):
        effect = amount(design.metric, design.least_effect)
        told.append(f"To see a difference of {effect}, {needed:,.0f} units of both revisions are needed.")
    if math.isfinite(days):
        told.append(f"At the present rate that takes {_days(days)}.")
        if days > design.days:
            told.append(f"That is longer than the {design.days} days it may take: it will probably end undecided.")
    if math.isfinite(least) and per_day:
        told.append(f"In {design.days} days, differences from {amount(design.metric, least)} on show.")
    return told


def _never_seen(design: Design, named: Collection[str]) -> list[str]:
    """A name that is mistyped would be waited for until the end."""
    metrics = (design.metric, *(one.metric for one in design.guardrails if one.metric is not None))
    wanted = [name for one in metrics for name in (one.value, one.per, one.covariate) if name]
    return [
        f"No label has a value {name!r} yet: look whether it is spelled so."
        for name in dict.fromkeys(wanted)
        if name not in named
    ]


def _days(days: float) -> str:
    if days < 1:
        return "less than a day"
    return f"about {number(math.ceil(days))} day{'s' if days > 1 else ''}"
