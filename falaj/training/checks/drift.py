"""Whether rows come from where a reference came from. Drift is what is large enough to matter and more than chance."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.statistics.distances import (
    counts_between,
    jensen_shannon,
    population_stability,
    quantile_edges,
    total_variation,
    weighted_kolmogorov_smirnov,
)
from falaj.statistics.significance import (
    benjamini_hochberg,
    chi_square_of_counts,
    kolmogorov_smirnov_chance,
    two_shares_chance,
)
from falaj.training.checks.columns import Column, Table
from falaj.training.checks.findings import Finding, Severity
from falaj.training.checks.profiles import Profile, Shape

CHANCE: Final = 0.01  # how often alike tables are said to differ at all
SMALL: Final = 0.1  # distances below are of no consequence, however sure
LARGE: Final = 0.25
MISSING: Final = 0.02  # change of the share that is missing
UNSEEN: Final = 0.01  # share of rows in categories that the reference has not

_CALM: Final = {
    "drift.data": "no drift",
    "drift.label": "no drift",
    "drift.missing": "no change of what is missing",
    "drift.categories": "few new categories",
}


@value
class Difference:
    """Of one column: how far, how likely by chance, and in words."""

    check: str
    column: str
    effect: float
    chance: float
    floor: float
    large: float
    sentence: str
    figures: dict[str, float]


def drift(rows: Table, reference: Profile, target: str = "", against: str = "the reference") -> list[Finding]:
    """The columns and the target are judged apart: a shift of what is predicted is another matter."""
    found = list(_schema(rows, reference, against))
    common = [name for name in rows if name in reference.columns]
    features = [
        one for name in common if name != target for one in _differences(rows[name], reference.columns[name], "drift.data")
    ]
    found += _judged(features, against, f"{len(common) - (target in common)} columns")
    if target in common:
        label = list(_differences(rows[target], reference.columns[target], "drift.label"))
        found += _judged(label, against, f"the target {target!r}")
    return found


def _judged(differences: list[Difference], against: str, what: str) -> Iterator[Finding]:
    """Chances are adjusted for how many columns were asked."""
    adjusted = benjamini_hochberg([one.chance for one in differences]) if differences else []
    largest: dict[str, float] = {}
    standing = set()
    for one, chance in zip(differences, adjusted, strict=True):
        largest[one.check] = max(largest.get(one.check, 0.0), one.effect)
        if chance >= CHANCE or one.effect < one.floor:
            continue
        standing.add(one.check)
        severity: Severity = "problem" if one.effect >= one.large else "warning"
        sure = f" (by chance: {chance:.1g})" if chance >= 1e-12 else ""
        figures = one.figures | {"chance": chance}
        yield Finding(check=one.check, severity=severity, sentence=one.sentence + sure, figures=figures, column=one.column)
    for check, effect in largest.items():
        if check not in standing:
            sentence = f"{_CALM[check]} of {what} against {against}: the largest change is {effect:.3f}"
            yield Finding(check=check, severity="fine", sentence=sentence, figures={"largest": effect})


def _schema(rows: Table, reference: Profile, against: str) -> Iterator[Finding]:
    gone = [name for name in reference.columns if name not in rows]
    new = [name for name in rows if name not in reference.columns]
    turned = {
        name: (reference.columns[name].kind, column.kind)
        for name, column in rows.items()
        if name in reference.columns and column.kind != reference.columns[name].kind and len(column.known)
    }
    told = [f"{', '.join(gone)} is missing"] * bool(gone) + [f"{', '.join(new)} is new"] * bool(new)
    told += [f"{name} was of kind {was} and is {now}" for name, (was, now) in turned.items()]
    count = float(len(gone) + len(new) + len(turned))
    severity: Severity = "problem" if gone or turned else "warning" if new else "fine"
    sentence = f"columns differ from {against}: {'; '.join(told)}" if told else f"the columns are those of {against}"
    yield Finding(check="drift.schema", severity=severity, sentence=sentence, figures={"columns": count})


def _differences(column: Column, shape: Shape, check: str) -> Iterator[Difference]:
    """What has become of another kind is told as such, and has no distance."""
    if column.kind == shape.kind == "category":
        yield from _of_categories(column, shape, check)
    elif column.kind == shape.kind and len(column.known) and shape.points:
        yield _of_numbers(column, shape, check)
    yield _of_missing(column, shape, "drift.label" if check == "drift.label" else "drift.missing")


def _of_numbers(column: Column, shape: Shape, check: str) -> Difference:
    points, known = np.asarray(shape.points), column.known
    effect = weighted_kolmogorov_smirnov(points, np.ones(len(points)), known)
    edges = quantile_edges(points)
    stability = population_stability(counts_between(points, edges) * (shape.known / len(points)), counts_between(known, edges))
    return Difference(
        check=check,
        column=column.name,
        effect=effect,
        chance=kolmogorov_smirnov_chance(effect, shape.known, len(known)),
        floor=SMALL,
        large=LARGE,
        sentence=f"{column.name} moved: {_moved(points, known)}, distributions {effect:.3f} apart",
        figures={"distance": effect, "stability": stability},
    )


def _moved(points: NDArray[np.float64], known: NDArray[np.float64]) -> str:
    """Of two values the median says nothing: it is one of them, or the other."""
    values = np.union1d(points, known)
    if len(values) == 2:
        before, now = (float(np.mean(side == values[1])) for side in (points, known))
        return f"the share of {values[1]:.4g} from {before:.1%} to {now:.1%}"
    return f"the median from {np.median(points):.4g} to {np.median(known):.4g}"


def _of_categories(column: Column, shape: Shape, check: str) -> Iterator[Difference]:
    names, often = np.unique(column.known.astype(str), return_counts=True)
    mine = {str(name): int(count) for name, count in zip(names, often, strict=True)}
    every = sorted(set(mine) | set(shape.counts))
    counts = np.array([[shape.counts.get(name, 0), mine.get(name, 0)] for name in every], dtype=np.float64).reshape(-1, 2).T
    counts = np.concatenate([counts, [[shape.others], [0]]], axis=1)
    if not counts[0].sum() or not counts[1].sum():
        return
    unseen = [name for name in mine if name not in shape.counts]
    if shape.others:  # of the rare ones nobody knows which they were
        counts[1, -1] = sum(mine[name] for name in unseen)
        counts[1, [place for place, name in enumerate(every) if name in unseen]] = 0
    effect = total_variation(*counts)
    shares = counts / counts.sum(axis=1, keepdims=True)
    most = int(np.argmax(np.abs(shares[1] - shares[0])))
    name = every[most] if most < len(every) else "rare ones"
    change = f"{name!r} went from {shares[0, most]:.1%} to {shares[1, most]:.1%}"
    yield Difference(
        check=check,
        column=column.name,
        effect=effect,
        chance=chi_square_of_counts(*counts)[1],
        floor=SMALL,
        large=LARGE,
        sentence=f"{column.name} has other shares: {change}, distributions {effect:.3f} apart",
        figures={"distance": effect, "jensen_shannon": jensen_shannon(*counts), "stability": population_stability(*counts)},
    )
    if unseen and not shape.others:
        yield _of_unseen(column, shape, {name: mine[name] for name in unseen})


def _of_unseen(column: Column, shape: Shape, unseen: dict[str, int]) -> Difference:
    """Rare categories turn up all the time: as often as the reference has some that it saw but once."""
    count, rows = sum(unseen.values()), len(column.known)
    once = sum(seen == 1 for seen in shape.counts.values())
    often = sorted(unseen, key=lambda name: (-unseen[name], name))[:5]
    return Difference(
        check="drift.categories",
        column=column.name,
        effect=count / rows - once / shape.known,
        chance=two_shares_chance(count, rows, once, shape.known) if count / rows > once / shape.known else 1.0,
        floor=UNSEEN,
        large=5 * UNSEEN,
        sentence=f"{column.name} has new categories: {', '.join(map(repr, often))}, {count / rows:.1%} of the rows",
        figures={"share": count / rows, "categories": float(len(unseen))},
    )


def _of_missing(column: Column, shape: Shape, check: str) -> Difference:
    gone, rows = int(column.missing.sum()), len(column)
    before, now = shape.missing / max(1, shape.rows), gone / max(1, rows)
    return Difference(
        check=check,
        column=column.name,
        effect=abs(now - before),
        chance=two_shares_chance(gone, rows, shape.missing, shape.rows),
        floor=MISSING,
        large=5 * MISSING,
        sentence=f"{column.name} is missing in {now:.1%} of the rows, and was in {before:.1%}",
        figures={"share": now, "before": before},
    )
