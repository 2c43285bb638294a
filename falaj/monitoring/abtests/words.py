"""A test told to people: one sentence that says how it stands, and amounts as they are read."""

import math

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.monitoring.abtests.deciding import Look
from falaj.monitoring.operations.abtests import Design, Guardrail, Metric, State
from falaj.statistics.intervals import Interval


def number(amount: float) -> str:
    """In as many digits as people compare."""
    if not math.isfinite(amount):
        return "unknown" if math.isnan(amount) else "no end of"
    return f"{amount:,.0f}" if abs(amount) >= 1000 or float(amount).is_integer() else f"{amount:.4g}"


def is_share(metric: Metric) -> bool:
    """Whether it is told in per cent."""
    return metric.kind == "binary" and not metric.per


def amount(metric: Metric, difference: float, *, signed: bool = False) -> str:
    """A difference of the metric."""
    if not math.isfinite(difference):
        return "unknown" if math.isnan(difference) else "anything"
    sign = "+" if signed and difference > 0 else ""
    if not is_share(metric):
        return f"{sign}{difference:.4g}"
    points = _points(difference)
    return f"{sign}{points} percentage point{'' if points.lstrip('-') == '1' else 's'}"


def _points(difference: float) -> str:
    """In hundredths, with one decimal; what would be none at that, in the digits that it has."""
    told = difference * 100
    return f"{told:.1f}".removesuffix(".0") if abs(told) >= 0.1 or not told else f"{told:.1g}"


def level(metric: Metric, mean: float) -> str:
    """The metric itself."""
    if not math.isfinite(mean):
        return "unknown"
    return f"{mean:.2%}" if is_share(metric) else f"{mean:.4g}"


def metric_name(metric: Metric) -> str:
    truth = "positive outcomes" if is_share(metric) else "outcome"
    names = {"right": "right predictions", "truth": truth, "value": metric.value}
    return names[metric.of] + (f" per {metric.per}" if metric.per else "")


def guardrail_name(guardrail: Guardrail) -> str:
    if guardrail.metric is not None:
        return metric_name(guardrail.metric)
    return "calls with errors" if guardrail.of == "errors" else "slow calls"


def span(length: int) -> str:
    """How long, in the largest unit that says enough."""
    if length < 2 * MINUTE:
        seconds = max(0, length) // SECOND
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    if length < 2 * HOUR:
        return f"{length // MINUTE} minutes"
    return f"{length // HOUR} hours" if length < 2 * DAY else f"{length // DAY} days"


def sentence(look: Look, state: State, started: Moment, until: Moment, ends: Moment, *, winner: int = 0) -> str:
    """How a test stands, or what came of it, for somebody who knows nothing else of it. `until` is now, or when it ended."""
    if state == "running":
        return _going_on(look, started, until, ends)
    sure = f"{look.design.confidence * 100:g} % sure"
    units = sum(look.standing.metrics[0].units(one) for one in look.shares)
    of_units = f"over {number(units)} units in {span(until - started)}"
    told = [_of_candidate(look, one) for one in look.candidates]
    if state == "won":
        found = _between(look.design, look.difference(winner), look.incumbent)
        return f"Revision {winner} wins: {found} ({sure}, {of_units})."
    if state == "lost":
        return f"{' '.join(told)} Nothing better was found ({sure}, {of_units})."
    if state == "same":
        least = amount(look.design.metric, look.design.least_effect)
        return f"There is no difference that matters: it is less than {least} ({sure}, {of_units})."
    if state == "broken":
        return " ".join(told)
    if state == "mismatch":
        lost = "No verdict: the units of the arms do not fit their shares, so some are lost on the way."
        return f"{lost} Find out where, then test anew."
    if state == "overtaken":
        return f"No verdict: somebody changed the split after {span(until - started)}, {of_units.partition(' in ')[0]}."
    words = "The time is over" if state == "over" else "It was stopped"
    return f"{words} after {span(until - started)}, and nothing was decided. {' '.join(told)}"


def _going_on(look: Look, started: Moment, now: Moment, ends: Moment) -> str:
    told = " ".join(_of_candidate(look, one) for one in look.candidates)
    left = f"{span(ends - now)} are left" if ends > now else "its time is over"
    return f"Nothing is decided after {span(now - started)}; {left}. {told}"


def _of_candidate(look: Look, candidate: int) -> str:
    out = look.standing.out.get(candidate)
    if out == "broken":
        return _broken(look, candidate)
    if look.mismatch(candidate) and out is None:
        return (
            f"Revision {candidate} cannot be judged: its units and those of revision {look.incumbent} do not fit their shares."
        )
    found = look.difference(candidate)
    if not look.standing.metrics[0].units(candidate):
        return f"Nothing is known of revision {candidate} yet."
    lost = "loses: " if out == "loser" else "so far: "
    return f"Revision {candidate} {lost}{_between(look.design, found, look.incumbent)}."


def _broken(look: Look, candidate: int) -> str:
    broken = next((one for one in look.guarded(candidate) if one.broken), None)
    if broken is None:
        return f"Revision {candidate} broke a guardrail."
    guardrail = look.design.guardrails[broken.place]
    metric = guardrail.metric or Metric()
    return (
        f"Revision {candidate} broke a guardrail: {guardrail_name(guardrail)} are {level(metric, broken.candidate)} against "
        f"{level(metric, broken.incumbent)} of revision {look.incumbent}, worse by at least {amount(metric, broken.low)}, "
        f"where {amount(metric, guardrail.worst)} are allowed."
    )


def _between(design: Design, found: Interval, incumbent: int) -> str:
    metric, name = design.metric, metric_name(design.metric)
    if not all(map(math.isfinite, (found.at, found.low, found.high))):
        return f"too little is known yet of {name}"
    more = "more" if found.at >= 0 else "less"
    ends = sorted((found.low, found.high))
    if is_share(metric):
        low, high = (f"{'+' if end > 0 else ''}{_points(end)}" for end in ends)
    else:
        low, high = (f"{end:+.4g}" for end in ends)
    estimate = f"about {amount(metric, abs(found.at))} {more} {name} than revision {incumbent} by the test's estimate"
    return f"{estimate}, between {low} and {high}"
