"""Whether a variant is as good as its original, from counts on held-out rows: pure, and the same whoever counted.

Over all rows and in each slice it has to be shown that the variant is not worse by more than may be: in its answers and, where
it gives probabilities, in what scores charge them. Absence of proof is a no: a slice with too few rows to show anything is told
as such. Whoever tries often enough on the same rows is lucky once: those refused on them before make it harder for all others.
"""

import math
from collections.abc import Collection, Sequence
from typing import Final, Literal, TypeAlias

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.optimisation.operations.optimisations import Limits
from falaj.optimisation.operations.variants import CertifyVariant, Charged, Group
from falaj.optimisation.operations.words import Measures, TaskKind
from falaj.statistics.noninferiority import FEWEST, Compared, Sums, chance_of_no_more, of_differences, of_means, of_shares

OVERALL: Final = "all rows"
_WORST_NAMED: Final = 5
_ALIKE: Final = 4  # refusals that cost the same
_LEFT: Final = 0.1  # of the chance of an error, for all that come after these
SCORES: Final = {"brier": "Brier score", "log": "log score"}
By: TypeAlias = Literal["answers", "brier", "log"]


@value
class Judged:
    """One group of rows. `original` and `variant` are the shares of right answers, or the mean errors, or, `by` a score, what
    the probabilities are charged on average. `chance` is adjusted for how many slices were asked about, and for how many
    variants were refused on these rows before, and so is `high`."""

    name: str
    rows: int
    original: float
    variant: float
    drop: float
    high: float
    margin: float
    chance: float
    ok: bool
    by: By = "answers"


@value
class Verdict:
    """`scores` are of the probabilities, over all rows and in each slice; empty where there are none."""

    fit: bool
    reasons: tuple[str, ...]
    overall: Judged
    slices: tuple[Judged, ...]
    scores: tuple[Judged, ...] = ()

    @property
    def worst(self) -> Judged | None:
        """The slice whose drop may be the largest."""
        return max(self.slices, key=lambda one: one.high - one.margin) if self.slices else None


def judge(evidence: CertifyVariant, task: TaskKind, limits: Limits, refused: int = 0) -> Verdict:
    """`refused` are the variants of the version that were refused on these rows before. Raises `Invalid` for counts that cannot
    be."""
    times = harder(refused)
    first, judged = _each(evidence.groups, task, limits, times)
    scores = _scored(evidence.groups, limits, times)
    worse = {one.name for one in (first, *judged) if not one.ok}  # whose probabilities are no news
    reasons = (*_reasons(evidence, task, limits, first, judged, times), *_poorly_scored(scores, worse))
    return Verdict(fit=not reasons, reasons=reasons, overall=first, slices=judged, scores=scores)


def hold_against(groups: Sequence[Group], task: TaskKind, limits: Limits) -> Verdict:
    """Of any two that were asked about the same rows, where the original is the one that stands: by quality alone. Raises
    `Invalid` for counts that cannot be."""
    first, judged = _each(groups, task, limits)
    reasons = (*_poor_overall(task, limits, first, 1), *_poor_slices(task, limits, judged, 1))
    return Verdict(fit=not reasons, reasons=reasons, overall=first, slices=judged)


def harder(refused: int) -> float:
    """By so many times the chance of an error is divided for the variant that follows on so many refused ones: by four and a
    half for the first four, so that one refusal on few rows is not the end of all hope, and by 20, 60, 120 after that. However
    many are tried in an order that does not depend on these rows, the chance that one is certified wrongly stays what
    was asked for: a bad one either comes behind as many refused ones as there were bad ones before it, or one of those was
    certified already, and these shares sum up to one. Good ones that are certified cost the others nothing."""
    later = refused - _ALIKE
    return _ALIKE / (1 - _LEFT) if later < 0 else (later + 1) * (later + 2) / _LEFT


def _each(groups: Sequence[Group], task: TaskKind, limits: Limits, times: float = 1) -> tuple[Judged, tuple[Judged, ...]]:
    overall, *slices = _in_order(groups, task)
    first, among = _judged(overall, task, limits.max_drop, limits.confidence, times), len(slices) * times
    return first, tuple(_judged(group, task, limits.max_slice_drop, limits.confidence, among) for group in slices)


def _scored(groups: Sequence[Group], limits: Limits, times: float) -> tuple[Judged, ...]:
    """With the margins of the answers: what may be lost of them may be lost of a score, which too goes from 0 to 1."""
    slices = sum(bool(group.name) for group in groups)
    return tuple(
        _charged(group, one, limits.max_slice_drop, limits.confidence, slices * times)
        if group.name
        else _charged(group, one, limits.max_drop, limits.confidence, times)
        for group in groups
        for one in group.scores
    )


def fewest_rows(margin: float, confidence: float) -> int:
    """So many rows it takes to show anything, were there not a single difference."""
    rows = 1
    while of_shares(rows, 0, 0, margin=margin, confidence=confidence).chance > 1 - confidence:
        rows *= 2
    low = rows // 2
    while rows - low > 1:
        middle = (low + rows) // 2
        shown = of_shares(middle, 0, 0, margin=margin, confidence=confidence).chance <= 1 - confidence
        low, rows = (low, middle) if shown else (middle, rows)
    return rows


def _in_order(groups: Sequence[Group], task: TaskKind) -> list[Group]:
    """All rows first."""
    overall = [group for group in groups if not group.name]
    slices = [group for group in groups if group.name]
    if len(overall) != 1 or len({group.name for group in slices}) != len(slices):
        raise Invalid("Counts are told once for all rows, under no name, and once for each slice.")
    for group in groups:
        if group.rows > overall[0].rows:
            raise Invalid(f"The slice {group.name!r} has more rows than there are.")
        if task == "classes":
            _check_sum(group)
        numbers = (group.original_error, group.variant_error, group.original_squares, group.variant_squares, group.products)
        if task == "numbers" and not all(math.isfinite(one) and one >= 0 for one in numbers):
            raise Invalid(f"The sums of {group.name or OVERALL!r} are no sums of errors.")
        if [one.by for one in group.scores] != [one.by for one in overall[0].scores]:
            raise Invalid(f"{group.name!r} is not scored by what all rows are scored by.")
        if not all(math.isfinite(one.squares) and one.squares >= 0 for one in group.scores):
            raise Invalid(f"The sums of {group.name or OVERALL!r} are no sums of scores.")
    return [overall[0], *slices]


def _check_sum(group: Group) -> None:
    if group.both + group.original + group.variant + group.neither != group.rows:
        raise Invalid(f"The counts of {group.name or OVERALL!r} do not sum up to its {group.rows} rows.")


def _judged(group: Group, task: TaskKind, margin: float, confidence: float, among: float) -> Judged:
    """Of `among` that are asked about, each has to be as much surer as there are others: then all of them hold together."""
    compared, original, variant = _compared(group, task, margin, surer(confidence, among))
    chance = min(1.0, compared.chance * among)
    return Judged(
        name=group.name or OVERALL,
        rows=group.rows,
        original=original,
        variant=variant,
        drop=compared.drop,
        high=compared.high,
        margin=margin,
        chance=chance,
        ok=chance <= 1 - confidence,
    )


def _charged(group: Group, one: Charged, margin: float, confidence: float, among: float) -> Judged:
    rows, sure = max(1, group.rows), surer(confidence, among)
    found = of_differences(group.rows, one.variant - one.original, one.squares, margin=margin, confidence=sure)
    chance = min(1.0, found.chance * among)
    return Judged(
        name=group.name or OVERALL,
        rows=group.rows,
        original=one.original / rows,
        variant=one.variant / rows,
        drop=found.drop,
        high=found.high,
        margin=margin,
        chance=chance,
        ok=chance <= 1 - confidence,
        by=one.by,
    )


def _compared(group: Group, task: TaskKind, margin: float, confidence: float) -> tuple[Compared, float, float]:
    rows = max(1, group.rows)
    if task == "classes":
        found = of_shares(group.rows, group.original, group.variant, margin=margin, confidence=confidence)
        return found, (group.both + group.original) / rows, (group.both + group.variant) / rows
    sums = Sums(
        rows=group.rows,
        first=group.original_error,
        second=group.variant_error,
        first_squares=group.original_squares,
        second_squares=group.variant_squares,
        products=group.products,
    )
    found = of_means(sums, margin=margin, confidence=confidence)
    return found, group.original_error / rows, group.variant_error / rows


def surer(confidence: float, among: float) -> float:
    """How sure each of so many has to be for all of them to hold together (Bonferroni)."""
    return 1 - (1 - confidence) / among


def _reasons(
    evidence: CertifyVariant, task: TaskKind, limits: Limits, overall: Judged, slices: Sequence[Judged], times: float
) -> list[str]:
    found = _poor_overall(task, limits, overall, times)
    found += _meaningless(evidence, task, limits, overall)
    found += _ruined(evidence.classes, limits)
    found += _poor_slices(task, limits, slices, times)
    if limits.latency_ms and (late := _too_late(evidence.measures, limits.latency_ms)):
        found.append(late)
    return found


def _poor_overall(task: TaskKind, limits: Limits, overall: Judged, times: float) -> list[str]:
    return [] if overall.ok else [_why(overall, task, surer(limits.confidence, times))]


def _poor_slices(task: TaskKind, limits: Limits, slices: Sequence[Judged], times: float) -> list[str]:
    poor = sorted((one for one in slices if not one.ok), key=lambda one: one.margin - one.high)
    found = [_why(one, task, surer(limits.confidence, len(slices) * times)) for one in poor[:_WORST_NAMED]]
    if len(poor) > _WORST_NAMED:
        found.append(f"So it is in {len(poor) - _WORST_NAMED} more slices.")
    return found


def _poorly_scored(scores: Sequence[Judged], worse: Collection[str]) -> list[str]:
    poor = [one for one in scores if not one.ok and one.name not in worse]
    poor.sort(key=lambda one: (one.name != OVERALL, one.margin - one.high))
    found = [_why_charged(one) for one in poor[:_WORST_NAMED]]
    if len(poor) > _WORST_NAMED:
        found.append(f"So it is by {len(poor) - _WORST_NAMED} more scores of slices.")
    return found


def _why_charged(one: Judged) -> str:
    score = f"the {SCORES[one.by]} of its probabilities"
    if one.rows < FEWEST:
        return f"{_where(one)} there are {one.rows:,} rows, too few to judge {score} by: that takes {FEWEST} or more."
    return (
        f"{_where(one)} {score} is worse by {points(one.drop, 'classes')} and may be by {points(one.high, 'classes')}, where "
        f"{points(one.margin, 'classes')} were allowed ({one.rows:,} rows)."
    )


def _meaningless(evidence: CertifyVariant, task: TaskKind, limits: Limits, overall: Judged) -> list[str]:
    """Where the original is no better than whoever always says the same, what is called true tells nothing of the model, and so
    nothing of a variant either, unless that says what the original says."""
    guessed = evidence.guessed / max(1, overall.rows)
    no_better = overall.original <= guessed if task == "classes" else overall.original >= guessed
    if evidence.guessed < 0 or not no_better or evidence.agreement >= 1 - limits.max_drop:
        return []
    kind = "share of right answers" if task == "classes" else "mean error"
    told = f"By this truth the original's {kind} is {overall.original:.4g}, and {guessed:.4g} of whoever always says the same"
    agreeing = f"the variant says what the original says on {evidence.agreement:.1%} of the rows only"
    return [f"{told}: that tells nothing of the model, and {agreeing}."]


def _ruined(classes: Sequence[Group], limits: Limits) -> list[str]:
    """A class may be so rare that a variant which never says it loses less than may be lost over all. Most are too rare to show
    that nothing is lost; but what is shown to lose more than any slice may is refused. A good one is far from that in all of
    them, however many there are: nothing is adjusted for."""
    found = []
    for one in classes:
        _check_sum(one)
        chance = chance_of_no_more(one.rows, one.original, one.variant, margin=limits.max_slice_drop)
        if chance <= 1 - limits.confidence:
            original, variant = one.both + one.original, one.both + one.variant
            found.append(
                (chance, f"Of {one.rows:,} rows of the class {one.name} it has {variant:,} right, the original {original:,}.")
            )
    reasons = [words for _, words in sorted(found)]
    if len(reasons) > _WORST_NAMED:
        reasons[_WORST_NAMED:] = [f"So it is in {len(reasons) - _WORST_NAMED} more classes."]
    return reasons


def _too_late(measures: Measures, bound: float) -> str:
    """What 99 of 100 answers keep to is known within an interval: all of it has to be within the bound."""
    longest = max(measures.p99_ms, measures.p99_high)
    if longest <= bound:
        return ""
    return (
        f"One answer in a hundred takes longer than {measures.p99_ms:.3g} ms, and that may be {longest:.3g} ms, where "
        f"{bound:g} ms was the bound."
    )


def _why(one: Judged, task: TaskKind, confidence: float) -> str:
    where = _where(one)
    if one.rows >= FEWEST and one.drop == math.inf:
        return (
            f"{where} what it is held against is never off, and it is by {one.variant:.3g} on average: of no error there is no "
            f"share to allow ({one.rows:,} rows). Judge on rows where that is off by something, or by other slices."
        )
    if one.rows >= FEWEST and one.drop > one.margin:
        allowed = points(one.margin, task)
        return f"{where} it is worse by {points(one.drop, task)}, where {allowed} were allowed ({one.rows:,} rows)."
    needed = fewest_rows(one.margin, confidence) if task == "classes" else FEWEST
    if one.rows < needed:
        return (
            f"{where} there are {one.rows:,} rows, too few to show a drop of at most {points(one.margin, task)}: that takes "
            f"{needed:,} or more, or a larger margin."
        )
    return (
        f"{where} its drop is {points(one.drop, task)} and may be {points(one.high, task)}, where {points(one.margin, task)} "
        f"were allowed ({one.rows:,} rows)."
    )


def _where(one: Judged) -> str:
    return "Over all rows" if one.name == OVERALL else f"In the slice {one.name}"


def points(share: float, task: TaskKind) -> str:
    """A drop for people: points of right answers, or per cent of the error."""
    return f"{share * 100:.2f} points" if task == "classes" else f"{share * 100:.2f} % of the error"
