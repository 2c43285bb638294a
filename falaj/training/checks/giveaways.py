"""Columns that know too much: the target under another name, one that predicts it alone, and scaling that saw the test rows."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.statistics.ranks import area
from falaj.training.checks.columns import Column, Table
from falaj.training.checks.findings import Finding
from falaj.training.checks.truth import is_classes

STRONG: Final = 0.99  # alone; what a column may know is left to whoever knows the data
CERTAIN: Final = 0.999
LEAST: Final = 30  # rows, and ten of the rarer class, below which chance does as well
_PARTS: Final = 20
_SAME: Final = 1 - 1e-9


def alone(train: Table, test: Table, target: str) -> Iterator[Finding]:
    """Each column by itself: learnt on train, tried on test. Areas for classes, explained variance for numbers."""
    told = False
    best, name = 0.0, ""
    for one in (one for one in train.values() if one.name != target and one.name in test):
        if one.kind != test[one.name].kind:
            continue
        found = _score(one, test[one.name], train[target], test[target])
        if found > best:
            best, name = found, one.name
        if found >= STRONG:
            told = True
            yield _finding(one, test[one.name], train[target], test[target], found)
    if not told:
        sentence = f"no column predicts {target} alone" + (f"; {name} comes nearest ({best:.3f} of 1)" if name else "")
        yield Finding(check="leakage.target", severity="fine", sentence=sentence, figures={"best": best})


def _finding(train: Column, test: Column, truth: Column, test_truth: Column, score: float) -> Finding:
    figures, what = {"score": score}, "area under the curve" if is_classes(truth) else "share of variance"
    if _renamed(train, truth) and _renamed(test, test_truth):
        sentence = f"{train.name} is the target {truth.name} under another name"
        return Finding(check="leakage.target", severity="problem", sentence=sentence, figures=figures, column=train.name)
    sentence = f"{train.name} alone predicts {truth.name} almost surely ({what} {score:.4f} on test): was it known beforehand?"
    severity = "problem" if score >= CERTAIN else "warning"
    return Finding(check="leakage.target", severity=severity, sentence=sentence, figures=figures, column=train.name)  # type: ignore[arg-type]


def _renamed(column: Column, truth: Column) -> bool:
    """One value for each value of the target, or the target times a number plus another."""
    known = ~(column.missing | truth.missing)
    if not known.any() or (column.missing & ~truth.missing).any():
        return False
    if not is_classes(truth):
        if column.kind == "category" or np.ptp(column.values[known]) == 0:
            return False
        return abs(float(np.corrcoef(column.values[known], truth.values[known])[0, 1])) >= _SAME
    pairs = np.unique(np.stack([column.codes()[known], truth.codes()[known]]), axis=1).shape[1]
    return bool(pairs == len(np.unique(column.codes()[known])) == len(np.unique(truth.codes()[known])))


def _score(train: Column, test: Column, truth: Column, test_truth: Column) -> float:
    """What the column knows of the target: the mean of the target in each part of it, as seen in train, applied to test."""
    known, test_known = ~truth.missing, ~test_truth.missing
    if min(known.sum(), test_known.sum()) < LEAST:
        return 0.0
    if not is_classes(truth):
        parts, test_parts = _parts(train, test, known, truth.values[known])
        wanted = test_truth.values[test_known]
        said = _means(parts[known], truth.values[known], test_parts[test_known])
        spread = float(((wanted - wanted.mean()) ** 2).sum())
        parted = 1 - float(((wanted - said) ** 2).sum()) / spread if spread else 0.0
        return max(parted, _linear(train, test, truth, test_truth))
    worst = 1.0
    for kind in np.unique(truth.values[known]):  # every class has to be given away
        hits, test_hits = truth.values[known] == kind, test_truth.values[test_known] == kind
        if min(test_hits.sum(), (~test_hits).sum()) < 10 or hits.all() or not hits.any():
            continue
        parts, test_parts = _parts(train, test, known, hits)
        said = _means(parts[known], hits.astype(np.float64), test_parts[test_known])
        found = area(said, test_hits)
        if train.kind != "category" and not test.missing[test_known].any():
            rising = area(test.values[test_known], test_hits)
            found = max(found, rising, 1 - rising)
        worst = min(worst, found)
    return worst if worst < 1.0 or _judgeable(test_truth) else 0.0


def _judgeable(truth: Column) -> bool:
    counts = np.unique(truth.known, return_counts=True)[1]
    return bool(np.any((counts >= 10) & (counts.sum() - counts >= 10)))


def _linear(train: Column, test: Column, truth: Column, test_truth: Column) -> float:
    """The straight line of train on test; parts are too coarse to see a copy."""
    known, there = ~(train.missing | truth.missing), ~(test.missing | test_truth.missing)
    if train.kind == "category" or min(known.sum(), there.sum()) < LEAST or np.ptp(train.values[known]) == 0:
        return 0.0
    x, y = train.values[known], truth.values[known]
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    wanted = test_truth.values[there]
    said = y.mean() + slope * (test.values[there] - x.mean())
    spread = float(((wanted - wanted.mean()) ** 2).sum())
    return 1 - float(((wanted - said) ** 2).sum()) / spread if spread else 0.0


def _parts(
    train: Column, test: Column, known: NDArray[np.bool_], truth: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The part that each row is in: its category, or one between quantiles of train and borders at which the target changes
    most; what is missing is a part, too."""
    if train.kind == "category":
        names, parts = np.unique(train.values.astype(str), return_inverse=True)
        places = np.clip(np.searchsorted(names, test.values.astype(str)), 0, len(names) - 1)
        return parts, np.where(names[places] == test.values.astype(str), places, -1)
    if not len(train.known):
        return np.zeros(len(train), dtype=np.int64), np.zeros(len(test), dtype=np.int64)
    there = ~train.missing[known]
    borders = _borders(train.values[known][there], truth[there].astype(np.float64))
    edges = np.unique([*np.quantile(train.known, np.linspace(0, 1, _PARTS + 1)[1:-1]), *borders])
    found = []
    for column in (train, test):
        parts = np.searchsorted(edges, np.nan_to_num(column.values), side="left")
        found.append(np.where(column.missing, len(edges) + 1, parts))
    return found[0], found[1]


def _borders(values: NDArray[np.float64], truth: NDArray[np.float64], depth: int = 3) -> list[float]:
    """Where a small tree would part them."""
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    places = np.flatnonzero(np.diff(values) > 0) + 1  # rows to the left of each possible border
    if depth == 0 or not len(places) or np.ptp(truth) == 0:
        return []
    left = np.cumsum(truth)[places - 1]
    gain = left**2 / places + (truth.sum() - left) ** 2 / (len(truth) - places)
    place = int(places[np.argmax(gain)])
    border = float((values[place - 1] + values[place]) / 2)
    sides = _borders(values[:place], truth[:place], depth - 1) + _borders(values[place:], truth[place:], depth - 1)
    return [border, *sides]


def _means(parts: NDArray[np.int64], truth: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Parts of few rows say little, so they are drawn towards the mean of all."""
    overall = float(truth.mean())
    size = int(max(parts.max(initial=0), wanted.max(initial=0))) + 1
    sums, counts = np.bincount(parts, truth, minlength=size), np.bincount(parts, minlength=size)
    means = (sums + overall) / (counts + 1)
    return np.where(wanted < 0, overall, means[np.maximum(wanted, 0)])


def scaling(train: Table, test: Table, target: str) -> Iterator[Finding]:
    """Scaling that was fitted on train and test together leaves a trace: both together are exact, train alone is not."""
    numbers = [name for name in train if name != target and name in test and {train[name].kind, test[name].kind} == {"number"}]
    standard = [name for name in numbers if _standardised(train[name].known, test[name].known)]
    ranged = [name for name in numbers if _ranged(train[name].known, test[name].known)]
    seen = standard + (ranged if len(ranged) > 1 else [])  # a single share may well go from 0 to 1 by itself
    if seen:
        named = ", ".join(seen[:5]) + (" and more" if len(seen) > 5 else "")
        sentence = f"{len(seen)} columns were scaled with the test rows among them ({named}): fit preprocessing on train alone"
    else:
        sentence = "no column shows that it was scaled with the test rows among them"
    severity = "warning" if seen else "fine"
    yield Finding(check="leakage.scaling", severity=severity, sentence=sentence, figures={"columns": float(len(seen))})  # type: ignore[arg-type]


def _standardised(train: NDArray[np.float64], test: NDArray[np.float64]) -> bool:
    if min(len(train), len(test)) < 10:
        return False
    both = np.concatenate([train, test])
    exact = abs(float(both.mean())) < 1e-6 and min(abs(float(both.std(ddof=loss)) - 1) for loss in (0, 1)) < 1e-6
    return exact and abs(float(train.mean())) > 1e-4


def _ranged(train: NDArray[np.float64], test: NDArray[np.float64]) -> bool:
    if min(len(train), len(test)) < 10 or len(np.unique(train)) < 10:
        return False
    whole = (min(train.min(), test.min()), max(train.max(), test.max())) == (0.0, 1.0)
    return whole and (float(train.min()), float(train.max())) != (0.0, 1.0)
