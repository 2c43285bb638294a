"""Parts of the test rows for which the model is worse than for the rest: which, by how much, and whether that is chance."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.statistics.distributions import student_tail
from falaj.statistics.intervals import Interval, mean_of_rows, wilson
from falaj.statistics.significance import holm
from falaj.training.checks.columns import Column, Table, column
from falaj.training.checks.findings import Finding, Severity
from falaj.training.checks.truth import Judged

LEAST: Final = 30  # rows of a slice about which something can be said
CHANCE: Final = 0.01  # that any slice at all is named falsely
MORE: Final = 1.25  # times the error of the rest, below which it is of no consequence
MUCH_MORE: Final = 2.0
_MOST: Final = 50  # values of one column that are slices of their own
_PARTS: Final = 4


@value
class Slice:
    """Rows of one part: error rate or mean error, with an interval that holds for all slices together."""

    name: str
    rows: int
    error: Interval
    rest: float
    chance: float


def slices(test: Table, judged: Judged, wanted: Sequence[str] | Mapping[str, Any]) -> Iterator[Finding]:
    """`wanted` are columns of test, or arrays by name with one value a row: a truth for each row makes one slice of it."""
    found = measured(test, judged, wanted)
    what = "error rate" if judged.classes else "mean error"
    if not found:
        yield Finding(
            check="slices", severity="note", sentence=f"no slice has {LEAST} rows on either side", figures={"slices": 0.0}
        )
        return
    bad = sorted(
        (one for one in found if one.chance < CHANCE and one.error.at >= MORE * one.rest), key=lambda one: -one.error.at
    )
    for one in bad:
        severity: Severity = "problem" if one.error.at >= MUCH_MORE * one.rest else "warning"
        sentence = f"{what} {one.error} where {one.name} ({one.rows} rows), and {one.rest:.4g} elsewhere"
        figures = {
            "error": one.error.at,
            "low": one.error.low,
            "high": one.error.high,
            "rest": one.rest,
            "rows": float(one.rows),
        }
        yield Finding(check="slices", severity=severity, sentence=sentence, figures=figures, column=one.name)
    worst = max(found, key=lambda one: (one.error.at, one.name))
    sentence = (
        f"{len(bad)} of {len(found)} slices are worse than chance allows; the worst is {worst.name}: {what} {worst.error}"
    )
    every = tuple({"slice": one.name, "rows": one.rows, "error": one.error.at, "rest": one.rest} for one in found)
    yield Finding(check="slices", severity="fine", sentence=sentence, figures={"worst": worst.error.at}, details=every)


def measured(test: Table, judged: Judged, wanted: Sequence[str] | Mapping[str, Any]) -> list[Slice]:
    """Every slice with enough rows, its chance adjusted for how many there are."""
    parts = [(name, rows[judged.rows]) for one in _columns(test, wanted) for name, rows in _parts(one)]
    enough = [(name, rows) for name, rows in parts if LEAST <= rows.sum() <= len(rows) - LEAST]
    chances = holm([_chance(judged.wrong[rows], judged.wrong[~rows]) for _, rows in enough]) if enough else []
    confidence = 1 - 0.05 / max(1, len(enough))
    return [
        Slice(
            name=name,
            rows=int(rows.sum()),
            error=_interval(judged, judged.wrong[rows], confidence),
            rest=float(judged.wrong[~rows].mean()),
            chance=chance,
        )
        for (name, rows), chance in zip(enough, chances, strict=True)
    ]


def _interval(judged: Judged, wrong: NDArray[np.float64], confidence: float) -> Interval:
    return wilson(int(wrong.sum()), len(wrong), confidence) if judged.classes else mean_of_rows(wrong, confidence)


def _chance(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    """How often a part drawn by chance is at least so much worse than the rest (Welch)."""
    first, second = (max(float(np.var(part, ddof=1)), 0.25 / len(part) ** 2) / len(part) for part in (inside, outside))
    apart = float(inside.mean() - outside.mean()) / math.sqrt(first + second)
    degrees = (first + second) ** 2 / (first**2 / (len(inside) - 1) + second**2 / (len(outside) - 1))
    return student_tail(apart, degrees)


def _columns(test: Table, wanted: Sequence[str] | Mapping[str, Any]) -> Iterator[Column]:
    if isinstance(wanted, Mapping):
        yield from (column(str(name), np.asarray(given)) for name, given in wanted.items())
        return
    if gone := [name for name in wanted if name not in test]:
        raise Invalid(f"slices are asked for by {', '.join(gone)}, which test has not; it has {', '.join(test)}")
    yield from (test[name] for name in wanted)


def _parts(one: Column) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    if one.missing.any():
        yield f"{one.name} is missing", one.missing
    distinct, counts = np.unique(one.known, return_counts=True)
    if one.kind == "category" or len(distinct) <= 2 * _PARTS:
        if set(map(str, distinct)) <= {"True", "False"}:
            yield one.name, one.values == "True"
            return
        for place in np.argsort(-counts, kind="stable")[:_MOST]:
            told = repr(distinct[place]) if one.kind == "category" else f"{distinct[place]:g}"
            yield f"{one.name} = {told}", (one.values == distinct[place]) & ~one.missing
        return
    edges = np.unique(np.quantile(one.known, np.linspace(0, 1, _PARTS + 1)[1:-1]))
    places = np.searchsorted(edges, np.nan_to_num(one.values), side="left")
    for number in range(len(edges) + 1):
        low = f"above {edges[number - 1]:.4g}" if number else ""
        high = f"up to {edges[number]:.4g}" if number < len(edges) else ""
        yield f"{one.name} {' and '.join(word for word in (low, high) if word)}", (places == number) & ~one.missing
