"""A/B tests as they are written on a command line, and as they look in a terminal."""

import math
import time
from typing import Final, Literal

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Invalid
from falaj.cli.amounts import part_of
from falaj.cli.layout import Layout, brief, tell_of_more
from falaj.cli.option_words import held_to
from falaj.cli.splits import percent_of, share_of
from falaj.monitoring.operations.abtests import (
    Abtest,
    Abtests,
    ArmShown,
    Better,
    Candidate,
    Design,
    Expected,
    Guardrail,
    GuardrailShown,
    Metric,
    OutcomeKind,
)

_WORDS: Final = {"open": "", "winner": "wins", "loser": "loses", "same": "no difference", "broken": "guardrail broken"}
_ASIDE: Final = ("right", "truth")
_OPTIONS: Final = {"candidates": "A candidate", "guardrails": "--guardrail", "metric.value": "--metric"}


def candidate_of(text: str) -> Candidate:
    """`4`, or `4=10` with its share in per cent; `4=10%` alike."""
    revision, equals, percent = text.partition("=")
    if not (revision.isascii() and revision.isdigit()) or (equals and not percent):
        raise Invalid(f"{text!r} is no candidate; write a revision's number, with its share where you like: 4, or 4=10.")
    share = share_of(percent.removesuffix("%")) if equals else 0
    if equals and not share:
        raise Invalid(f"{text!r} gives revision {revision} no traffic, so nothing would come to be known; leave the share out.")
    return Candidate(revision=int(revision), share=share)


def metric_of(
    text: str,
    *,
    kind: OutcomeKind | Literal[""] = "",
    per: str = "",
    low: float = 0.0,
    high: float = 1.0,
    covariate: str = "",
    better: Better = "higher",
) -> Metric:
    """`right`, `truth`, or the name of a value; `value:right` for a value that is called so."""
    shared = {"per": per, "low": low, "high": high, "covariate": covariate, "better": better}
    usual: OutcomeKind = "mean" if per or covariate or text not in _ASIDE else "binary"
    if text in _ASIDE:
        return Metric(of=text, kind=kind or usual, **shared)  # type: ignore[arg-type]
    return Metric(of="value", value=text.removeprefix("value:"), kind=kind or usual, **shared)  # type: ignore[arg-type]


def guardrail_of(text: str) -> Guardrail:
    """`errors:1%`, `slow:0.02`, `right:1%`, or of a value that should not rise: `lower:cost:0.5`."""
    better: Better = "lower" if text.startswith("lower:") else "higher"
    name, colon, worst = text.removeprefix("lower:").removeprefix("higher:").rpartition(":")
    if not colon or not name:
        raise Invalid(f"{text!r} is no guardrail; write what and how much worse it may be: errors:1%, or lower:cost:0.5.")
    allowed = part_of(worst, "difference")
    if name == "errors" or name == "slow":
        return Guardrail(of=name, worst=allowed)  # type: ignore[arg-type]
    return Guardrail(of="metric", metric=metric_of(name, better=better), worst=allowed)


def designed(design: Design) -> Design:
    """As it was given. Raises `Invalid` for what cannot be, by its option."""
    return held_to(Design, design, _OPTIONS)


def expected(layout: Layout, found: Expected) -> None:
    for sentence in found.sentences:
        layout.line(sentence)


def listed(layout: Layout, page: Abtests) -> None:
    rows = [(one.name, one.endpoint, one.state, one.units, brief(one.started), one.sentence) for one in page.items]
    layout.table(("name", "endpoint", "state", "units", "started", "how it stands"), rows)
    tell_of_more(page)


def shown(layout: Layout, found: Abtest) -> None:
    layout.line(found.sentence, style="bold")
    if found.mismatch:
        layout.line(found.mismatch)
    layout.line()
    layout.table(
        ("revision", "model", "share", "units", found.metric, "difference", "between", "verdict"),
        [_arm(found, arm) for arm in found.arms],
    )
    if found.guardrails:
        layout.line()
        rows = [
            (
                one.name,
                one.revision,
                _harm(one, one.harm),
                f"{_harm(one, one.worst)} allowed",
                _kept(one),
            )
            for one in found.guardrails
        ]
        layout.table(("guardrail", "revision", "worse by", "limit", "verdict"), rows)
    layout.line()
    for remark in found.remarks:
        layout.line(remark)
    layout.pairs(_facts(found))


def _facts(found: Abtest) -> list[tuple[str, object]]:
    by = found.ended_by.name if found.ended_by else "the platform"
    ended = [("ended", found.ended), ("by", by), ("done", found.acted)]
    going = [("days left", f"{max(0, found.ends - _now()) / DAY:.1f} of {found.design.days}")]
    needed = found.expected.units_needed
    plan = f"{found.units:,} of {needed:,.0f}" if math.isfinite(needed) else f"{found.units:,}"
    return [
        ("test", f"{found.name} at {found.endpoint}, {found.state}"),
        ("started", f"{brief(found.started)} by {found.started_by.name}"),
        ("units", plan),
        *(ended if found.ended is not None else going),
    ]


def _now() -> Moment:
    return Moment(round(time.time() * SECOND))


def _arm(found: Abtest, arm: ArmShown) -> tuple[object, ...]:
    difference = arm.difference
    between = "" if difference is None else f"{_amount(found, difference.low)} to {_amount(found, difference.high)}"
    return (
        f"{arm.revision}{' (incumbent)' if arm.incumbent else ''}",
        f"{arm.model} v{arm.version}",
        percent_of(arm.share),
        f"{arm.units:,}",
        _level(found, arm.mean),
        "" if difference is None else _amount(found, difference.at),
        between,
        _WORDS.get(arm.word, "units do not fit"),
    )


def _level(found: Abtest, mean: float) -> str:
    if not math.isfinite(mean):
        return "-"
    return f"{mean:.2%}" if found.unit == "share" else f"{mean:.4g}"


def _amount(found: Abtest, difference: float) -> str:
    if not math.isfinite(difference):
        return "?"
    return f"{difference * 100:+.3g} points" if found.unit == "share" else f"{difference:+.4g}"


def _kept(one: GuardrailShown) -> str:
    if one.broken:
        return "broken"
    return "holds" if one.known else "nothing known yet"


def _harm(one: GuardrailShown, harm: float) -> str:
    if not math.isfinite(harm):
        return "-"
    return f"{harm * 100:.3g} points" if one.unit == "share" else f"{harm:.4g}"
