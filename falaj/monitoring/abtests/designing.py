"""Whether a test can be what somebody asks for, and the split that it takes. Pure: all is refused before anything is done."""

from typing import Final

from falaj.base.errors import Conflict, Invalid
from falaj.monitoring.operations.abtests import Design, Guardrail, Metric
from falaj.serving.operations.words import WHOLE, Arm
from falaj.serving.splits import Arms, main_revision, without

LEAST_CONFIDENCE: Final = 0.5
MOST_CONFIDENCE: Final = 0.9999
NARROWEST: Final = 1e-60  # between bounds: squares of it, times millions of units, are numbers still
WIDEST: Final = 1e60


def check(design: Design) -> None:
    """What can be told without knowing the endpoint."""
    if not LEAST_CONFIDENCE <= design.confidence <= MOST_CONFIDENCE:
        raise Invalid(f"The confidence is {design.confidence}; give one from {LEAST_CONFIDENCE} to {MOST_CONFIDENCE}, as 0.95.")
    if not 0 < design.power < 1:
        raise Invalid(f"The power is {design.power}; give one between 0 and 1, such as 0.8.")
    _check_metric(design.metric, "The metric")
    if design.metric.kind == "binary" and design.least_effect >= 1:
        raise Invalid(
            f"A share cannot change by {design.least_effect}; the least effect is below 1, such as 0.01 for one point."
        )
    for guardrail in design.guardrails:
        _check_guardrail(guardrail)
    numbers = [one.revision for one in design.candidates]
    if twice := sorted({one for one in numbers if numbers.count(one) > 1}):
        raise Invalid(f"Revision {twice[0]} is named twice among the candidates.")
    given = [one.share for one in design.candidates]
    if any(given) and not all(given):
        raise Invalid("Give every candidate a share, or none of them: then all arms have as much.")
    if sum(given) >= WHOLE:
        raise Invalid(f"The candidates get {sum(given) / 100:g} % together; leave something for the incumbent.")


def _check_metric(metric: Metric, which: str) -> None:
    if (metric.of == "value") != bool(metric.value):
        raise Invalid(f"{which} is of {metric.of!r}: a value's name goes with `value`, and with nothing else.")
    if metric.kind == "bounded" and metric.low >= metric.high:
        raise Invalid(f"{which} is bounded by {metric.low} and {metric.high}; the first has to be below the second.")
    if metric.kind == "bounded" and not NARROWEST <= metric.high - metric.low <= WIDEST:
        raise Invalid(
            f"{which} is bounded by {metric.low} and {metric.high}; bounds that can be reckoned with are {NARROWEST:g} to "
            f"{WIDEST:g} apart: give the outcome in another unit."
        )
    if metric.kind != "mean" and (metric.per or metric.covariate):
        what = "A ratio" if metric.per else "A covariate"
        raise Invalid(
            f"{what} needs the kind `mean`: bounds of a single outcome say nothing of it. It is {metric.kind!r} here."
        )
    if metric.per and metric.per == metric.value:
        raise Invalid(f"{which} divides {metric.per!r} by itself.")


def _check_guardrail(guardrail: Guardrail) -> None:
    if (guardrail.of == "metric") != (guardrail.metric is not None):
        raise Invalid(f"A guardrail of {guardrail.of!r} {'needs' if guardrail.metric is None else 'has no'} metric.")
    if guardrail.metric is not None:
        _check_metric(guardrail.metric, "A guardrail's metric")
    elif guardrail.worst >= 1:
        raise Invalid(f"A share of calls cannot rise by {guardrail.worst}; `worst` is below 1, such as 0.01 for one point.")


def incumbent_of(design: Design, now: Arms, endpoint: str) -> int:
    """The revision that the candidates are held against."""
    candidates = {one.revision for one in design.candidates}
    found = design.incumbent or main_revision(tuple(arm for arm in now if arm.revision not in candidates))
    if found in candidates:
        raise Invalid(f"Revision {found} cannot be a candidate and the incumbent.")
    if not found:
        raise Conflict(f"Nothing of {endpoint!r} answers besides the candidates, so there is nothing to test them against.")
    live = {arm.revision for arm in now if arm.role == "live" and arm.share}
    if found not in live:
        raise Conflict(f"Revision {found} answers nothing now; the incumbent is one that does: {_listed(live)}.")
    if others := live - candidates - {found}:
        raise Conflict(
            f"Revision {min(others)} of {endpoint!r} has a part of the traffic and is not in the test; name it as a candidate, "
            "or take its part away first (`falaj endpoint split`)."
        )
    return found


def arms_of(design: Design, incumbent: int, now: Arms) -> Arms:
    """The split of the test; shadows stay, but for those that are candidates."""
    labels = {arm.revision: arm.label for arm in now}
    equal = WHOLE // (len(design.candidates) + 1)
    shares = {one.revision: one.share or equal for one in design.candidates}
    shares[incumbent] = WHOLE - sum(shares.values())
    shadows = [arm for arm in now if arm.role == "shadow" and arm.revision not in shares]
    live = [Arm(revision=one, share=share, label=labels.get(one, "")) for one, share in shares.items()]
    return tuple(sorted([*live, *shadows], key=lambda arm: arm.revision))


def shares_of(design: Design, incumbent: int) -> dict[int, int]:
    """Of all arms of the test, as it began: where one leaves, the others keep their proportions."""
    return {arm.revision: arm.share for arm in arms_of(design, incumbent, ())}


def back_of(design: Design, incumbent: int, before: Arms) -> Arms:
    """What was before, without the candidates: they may have had a part of the traffic already."""
    found = before
    for one in design.candidates:
        if any(arm.revision == one.revision and arm.role == "live" for arm in found):
            found = without(found, one.revision)
    return found or (Arm(revision=incumbent, share=WHOLE),)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
