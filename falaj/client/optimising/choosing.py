"""Which candidates are made, which are given up early, and which are judged: pure."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from falaj.optimisation.judging import fewest_rows, harder, surer
from falaj.optimisation.making.candidates import Candidate, Planned
from falaj.optimisation.operations.optimisations import Limits, Optimisation, Proposed
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import Measures, TaskKind
from falaj.statistics.noninferiority import FEWEST, likely_shown

# Steps that find the ranges of activations, for which they need rows that look like those to come; how many they look at.
CALIBRATED: Final = {"int8": 512, "openvino-int8": 300}
# How much worse a student may look on the rows for comparing. The original has often learnt from them, and a student never has:
# what it looks like there is the least it can be, and the held-out rows decide.
_GRACE: Final[dict[TaskKind, float]] = {"classes": 0.02, "numbers": 0.25}
# Steps that take more away by a larger number, and those that do by a smaller one.
_MORE: Final = {"prune": 1, "sparsify": 1, "trees": -1}
_LEAST: Final = 1e-9
_DOUBT: Final = 2.0  # so many standard errors beyond what is allowed, a candidate is not worth measuring


def narrowed(found: Planned, only: Sequence[str], unfit: str) -> tuple[Proposed, ...]:
    """As they are told: without those that were not wanted, and with why some are not made. A step that was asked for by name
    and planned by nobody is a candidate by itself."""
    proposals = [_proposed(one, "") for one in found.candidates] + [_proposed(one, why) for one, why in found.skipped]
    if only:
        words = set(only)
        wanted = [one for one in proposals if set(one.steps) <= words]
        there = {step for one in wanted for step in one.steps}
        asked = dict.fromkeys(step for step in only if step not in there)
        wanted += [Proposed(name=_name(step), steps=(step,), why="It was asked for.", skipped="") for step in asked]
        proposals = list({one.name: one for one in wanted}.values())
    return tuple(
        Proposed(name=one.name, steps=one.steps, why=one.why, skipped=one.skipped or _uncalibrated(one, unfit))
        for one in proposals
    )


def _proposed(one: Candidate, skipped: str) -> Proposed:
    return Proposed(name=one.name, steps=one.steps, why=one.why, skipped=skipped)


def _name(step: str) -> str:
    return "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in step.lower())


def _uncalibrated(one: Proposed, unfit: str) -> str:
    return f"Its calibration would be worth nothing. {unfit}" if unfit and calibrated_on(one.steps) else ""


def calibrated_on(steps: Sequence[str]) -> int:
    """How many of the calibration rows such a candidate looks at, at most; 0 where it has no use for any."""
    return max((CALIBRATED.get(step.partition(":")[0], 0) for step in steps), default=0)


def allowed(steps: Sequence[str], limits: Limits, task: TaskKind) -> float:
    """How much worse a candidate may be on the rows for comparing."""
    return limits.max_drop + (_GRACE[task] if any(step.startswith("distil") for step in steps) else 0.0)


def hopeless(drop: float, steps: Sequence[str], limits: Limits, rows: int, task: TaskKind) -> str:
    """Why a candidate is given up after a look at the rows it is compared on; empty where it may yet be shown to be fit."""
    most = allowed(steps, limits, task)
    if drop <= most + _DOUBT * _error(drop, limits, rows, task):
        return ""
    return (
        f"It is worse by {drop * 100:.2f} %, where {most * 100:.2f} % are allowed on the rows that candidates are compared on."
    )


def _error(drop: float, limits: Limits, rows: int, task: TaskKind) -> float:
    """The standard error of a drop on so many rows, roughly."""
    if task == "numbers":
        return max(limits.max_drop, _LEAST) / _DOUBT
    return math.sqrt(max(abs(drop), 1 / max(1, rows)) / max(1, rows))


def no_better(steps: Sequence[str], failed: Sequence[Variant]) -> str:
    """Why a candidate is not even made, after these were given up: it goes on where one of them ended, or takes more away and
    is the same otherwise. Empty where it may be better."""
    worse = next((one for one in failed if _goes_on(steps, one.steps) or _takes_more(steps, one.steps)), None)
    return "" if worse is None else f"It can only be worse than {worse.name}, which was given up."


def _goes_on(steps: Sequence[str], failed: Sequence[str]) -> bool:
    return tuple(steps[: len(failed)]) == tuple(failed)


def _takes_more(steps: Sequence[str], failed: Sequence[str]) -> bool:
    """By its first step; what followed there follows here, too."""
    (word, _, share), (its_word, _, its_share) = steps[0].partition(":"), failed[0].partition(":")
    if word != its_word or word not in _MORE or not _goes_on(steps[1:], failed[1:]):
        return False
    try:
        return _MORE[word] * (float(share) - float(its_share)) > 0
    except ValueError:  # such a step says so itself
        return False


def hope(one: Variant, plan: Optimisation) -> float:
    """How likely it is to be shown on the held-out rows, by what it did on those for comparing. A student answers otherwise
    and as well: how far it moves scores tells nothing of it."""
    if one.measures is None:
        return 0.0
    drop, changes, limits = one.measures.drop, one.measures.changes, plan.limits
    _, compared, judged = plan.rows or (0, 0, 0)
    grace = allowed(one.steps, limits, plan.task) - limits.max_drop
    if changes < 0 or grace:
        spare = allowed(one.steps, limits, plan.task) - drop
        return NormalDist().cdf(spare / _error(drop, limits, compared, plan.task))
    worse = min(max(0.0, drop), changes)
    sure = surer(limits.confidence, harder(plan.refused_before))
    return likely_shown(judged, worse, changes, margin=limits.max_drop, confidence=sure)


def needed(plan: Optimisation, refused: int) -> int:
    """So many rows it takes to show anything after so many refusals."""
    if plan.task == "numbers":
        return FEWEST
    return fewest_rows(plan.limits.max_drop, surer(plan.limits.confidence, harder(refused)))


def in_order(found: Optimisation, plan: Optimisation) -> list[Variant]:
    """Those that were made, the most promising first: within the latency that was asked for, then by what the target wants and
    how likely it looks that it may be had. A fast one that is refused makes it harder for all that follow, and few rows show
    nothing after a few of these."""
    made = [(one, one.measures) for one in found.variants if one.state == "made" and one.measures is not None]
    limit = plan.limits.latency_ms

    def promise(pair: tuple[Variant, Measures]) -> tuple[bool, float]:
        one, measures = pair
        in_time = not limit or measures.p99_high <= limit
        return in_time, hope(one, plan) * (1 / max(1, measures.size) if plan.target == "edge" else measures.times)

    return [one for one, _ in sorted(made, key=promise, reverse=True)]
