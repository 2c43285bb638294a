"""Whether what was measured is enough: figures in, a finding out; pure, and the same whoever measured.

Absence of proof is a no: too few rows, groups that cannot be told apart, figures that cannot be, all of that has not passed.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.lifecycle.gates.values import Finding, failed
from falaj.lifecycle.operations.gates import Gate, GroupCount, Told
from falaj.optimisation.judging import Judged, Verdict, hold_against, points
from falaj.optimisation.operations.optimisations import Limits
from falaj.optimisation.operations.words import TaskKind
from falaj.statistics.fairness import Gap, gap_of_counts

_FEWEST: Final = 50  # rows of a group that a gap is told of
_SHOWN: Final = 200  # slices and groups in a document
_NAMED: Final = 3


def judge(gate: Gate, told: Told, incumbent: str) -> Finding:
    """`incumbent` is what it was held against, in words; empty where nothing stands yet."""
    if told.problem:
        return failed(told.problem)
    try:
        return _JUDGES[gate.kind](gate, told, incumbent)
    except Invalid as error:
        return failed(f"What was told of it cannot be: {error}")


# Quality


def _quality(gate: Gate, told: Told, incumbent: str) -> Finding:
    """Where nothing stands, it is held against whoever always says the same, and has to be better, by whatever little."""
    limits = Limits(max_drop=gate.max_drop, max_slice_drop=gate.max_slice_drop, confidence=gate.confidence)
    if incumbent:
        verdict = hold_against(told.counted, told.task, limits)
        reasons = [*verdict.reasons, *_floor(gate, told.task, verdict.overall)]
        told_of = f"Not worse than {incumbent}"
    else:
        whole = [one for one in told.counted if not one.name]
        verdict = hold_against(whole, told.task, limits)
        reasons = [*_no_better(told.task, verdict), *_floor(gate, told.task, verdict.overall)]
        told_of = "Nothing stands yet, and it is better than always saying the same"
    document = {
        "task": told.task,
        "against": incumbent,
        "overall": _group(verdict.overall),
        "slices": [_group(one) for one in sorted(verdict.slices, key=lambda one: one.margin - one.high)[:_SHOWN]],
        "slices_judged": len(verdict.slices),
        "read_as": told.read_as,
    }
    if reasons:
        return failed(" ".join(reasons), **document)
    within = f" within {points(gate.max_drop, told.task)} over all" if incumbent else ""
    slices = (
        f" and {points(gate.max_slice_drop, told.task)} in {_count(len(verdict.slices), 'slice')}" if verdict.slices else ""
    )
    words = f"{told_of}{within}{slices}: {_score(verdict.overall, told.task)} on {verdict.overall.rows:,} rows."
    return Finding(passed=True, words=words, document=document)


def _no_better(task: TaskKind, verdict: Verdict) -> list[str]:
    """By the same test with nothing allowed: the drop lies below zero with the confidence asked for."""
    if verdict.overall.rows and verdict.overall.high < 0:
        return []
    said = f"{verdict.overall.original:.4g}"
    kind = "share of right answers" if task == "classes" else "mean error"
    ours = f"{verdict.overall.variant:.4g} ({verdict.overall.rows:,} rows)"
    told = "Nothing stands yet, and it is not shown to be better than always saying the same"
    return [f"{told}: that has a {kind} of {said}, and this one {ours}."]


def _floor(gate: Gate, task: TaskKind, overall: Judged) -> list[str]:
    if task == "classes" and overall.variant < gate.least:
        return [f"It is right on {overall.variant:.2%} of the rows, and {gate.least:.2%} are needed."]
    if task == "numbers" and gate.most and not overall.variant <= gate.most:
        return [f"Its mean error is {overall.variant:.4g}, and {gate.most:g} is the most."]
    if (gate.least and task == "numbers") or (gate.most and task == "classes"):
        return ["The bound that is set is of the other kind of answer: classes have `least`, numbers have `most`."]
    return []


def _score(one: Judged, task: TaskKind) -> str:
    if task == "classes":
        return f"{one.variant:.2%} are right, where {one.original:.2%} were"
    return f"the mean error is {one.variant:.4g}, where {one.original:.4g} was"


def _group(one: Judged) -> dict[str, Any]:
    figures = ("original", "variant", "drop", "high", "margin", "chance")
    return {"name": one.name, "rows": one.rows, "ok": one.ok} | {name: _number(getattr(one, name)) for name in figures}


# Latency


def _latency(gate: Gate, told: Told, _: str) -> Finding:
    if told.measures is None:
        return failed("Nothing was measured.")
    measures, reasons = told.measures, list[str]()
    longest = max(measures.p99_ms, measures.p99_high)
    if gate.p99_ms and not longest <= gate.p99_ms:
        reasons.append(
            f"One answer in a hundred takes longer than {measures.p99_ms:.3g} ms, and that may be {longest:.3g} ms, where "
            f"{gate.p99_ms:g} ms is the bound."
        )
    if gate.budget and not measures.cost <= gate.budget:
        reasons.append(f"A million predictions cost {measures.cost:.4g}, and {gate.budget:g} is the budget.")
    names = ("rows_per_s", "p50_ms", "p50_low", "p50_high", "p99_ms", "p99_low", "p99_high", "cost")
    document = {name: _number(getattr(measures, name)) for name in names} | {
        "host": told.host.shown if told.host else "",
        "size": measures.size,
        "memory": measures.memory,
    }
    if reasons:
        return failed(" ".join(reasons), **document)
    words = f"99 of 100 answers take at most {longest:.3g} ms; a million predictions cost {measures.cost:.4g}."
    return Finding(passed=True, words=words, document=document)


# Fairness


def _fairness(gate: Gate, told: Told, _: str) -> Finding:
    """Each gap has to be shown to be small enough, all of them together with the confidence asked for."""
    asked = [(column, figure) for column in gate.groups for figure in gate.figures]
    sure = 1 - (1 - gate.confidence) / len(asked)
    reasons, gaps = list[str](), list[dict[str, Any]]()
    for column, figure in asked:
        mine = [one for one in told.groups if (one.column, one.figure) == (column, figure)]
        gap = gap_of_counts(figure, _counts(mine), least=_FEWEST, confidence=sure)
        if gap is None:
            reasons.append(f"By {column} there are not two groups of {_FEWEST} rows or more to tell how many are {figure}.")
            continue
        gaps.append({"column": column} | _gap(gap))
        if gap.left_out:
            left = ", ".join(gap.left_out[:_NAMED])
            reasons.append(f"By {column} there are fewer than {_FEWEST} rows to tell how many are {figure} of: {left}.")
        if not gap.difference.high <= gate.max_gap:
            reasons.append(
                f"By {column} the shares that are {figure} are {gap.difference.at * 100:.1f} points apart ({gap.lowest}, "
                f"{gap.highest}), and may be {gap.difference.high * 100:.1f} ({', '.join(gap.farthest)}), where "
                f"{gate.max_gap * 100:g} are allowed."
            )
    document = {"rows": told.rows, "max_gap": gate.max_gap, "gaps": gaps}
    if reasons:
        return failed(" ".join(reasons), **document)
    widest = max((one["high"] for one in gaps), default=0.0)
    words = f"No two groups are shown to be more than {widest * 100:.1f} points apart; {gate.max_gap * 100:g} are allowed."
    return Finding(passed=True, words=words, document=document)


def _counts(mine: Sequence[GroupCount]) -> dict[str, tuple[int, int]]:
    if len({one.group for one in mine}) != len(mine) or any(one.hits > one.rows for one in mine):
        raise Invalid("a group is told twice, or has more hits than rows")
    return {one.group: (one.hits, one.rows) for one in mine}


def _gap(gap: Gap) -> dict[str, Any]:
    shown = sorted(gap.shares.items())[:_SHOWN]
    return {
        "figure": gap.figure,
        "lowest": gap.lowest,
        "highest": gap.highest,
        "farthest": list(gap.farthest),
        "difference": gap.difference.at,
        "low": gap.difference.low,
        "high": gap.difference.high,
        "ratio": _number(gap.ratio.at),
        "shares": {name: [one.low, one.at, one.high] for name, one in shown},
    }


# Leakage


def _leakage(gate: Gate, told: Told, _: str) -> Finding:
    document = {
        "rows": told.rows,
        "training_rows": told.training_rows,
        "found": [{"check": one.check, "severity": one.severity, "sentence": one.sentence} for one in told.sightings[:_SHOWN]],
    }
    made = {one.check for one in told.sightings}
    if "leakage.duplicates" not in made or (gate.keys and "leakage.keys" not in made):
        return failed("It was not looked for all that had to be.", **document)
    if worst := [one for one in told.sightings if one.severity == "problem"]:
        return failed(" ".join(one.sentence for one in worst[:_NAMED]), **document)
    warned = sum(one.severity == "warning" for one in told.sightings)
    more = f"; {_count(warned, 'thing')} to look at" if warned else ""
    words = f"None of {told.rows:,} held-out rows leaks from {told.training_rows:,} rows of training{more}."
    return Finding(passed=True, words=words, document=document)


_JUDGES: Final = {"quality": _quality, "latency": _latency, "fairness": _fairness, "leakage": _leakage}


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"


def _number(number: float) -> float | str:
    """As JSON has it; what is no number is spelled."""
    return number if math.isfinite(number) else str(number)
