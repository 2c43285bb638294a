"""What decides, by simulation with the shipped defaults, looked at after every unit: how often it errs, and what it finds.

Seeds were drawn from the operating system once, after every threshold had been set.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from falaj.monitoring.abtests.outcomes import Seen
from falaj.monitoring.operations.abtests import Candidate, Design, Metric
from falaj.statistics import planning
from tests.monitoring.abtests.simulated import Coming, Draw, ended

ORDERED, ORDERED_HEAVY, SKEWED, SKEWED_HEAVY = 3_634_715_104, 1_046_032_709, 2_332_699_862, 2_052_624_271
ALIKE, ALIKE_HEAVY, FOUND, NEARER, SAME, LOST = 858165284, 2205952939, 711897366, 3484075124, 3469470578, 2942093232
TWO = (Candidate(revision=2),)
NUMBER = Metric(of="value", value="spent", kind="mean")
RATIO = Metric(of="value", value="spent", per="visits", kind="mean")
HELPED = Metric(of="value", value="spent", covariate="before", kind="mean")


def happens(chance: float, more: float = 0.0) -> Draw:
    return lambda random, arm: Seen(revision=arm, came=float(random.random() < chance + more * (arm == 2)))


def numbers(more: float = 0.0) -> Draw:
    return lambda random, arm: Seen(revision=arm, came=float(random.lognormal()) + more * (arm == 2))


def ratios(more: float = 0.0) -> Draw:
    """The candidate's visits are more, too: that alone is no difference of the ratio."""

    def draw(random: np.random.Generator, arm: int) -> Seen:
        visits = float(random.exponential() + 0.5) * (1.3 if arm == 2 else 1.0)
        return Seen(revision=arm, came=visits * (float(2 * random.random()) + more * (arm == 2)), per=visits)

    return draw


def helped(more: float = 0.0) -> Draw:
    def draw(random: np.random.Generator, arm: int) -> Seen:
        before = float(random.normal())
        return Seen(revision=arm, came=3 * before + float(random.normal()) + more * (arm == 2), known=before)

    return draw


def spent(random: np.random.Generator, arm: int) -> Seen:
    """Of two in a hundred anything at all, and of few of those most."""
    return Seen(revision=arm, came=float((random.random() < 0.02) * random.lognormal(0, 1.5)))


def per_visit(random: np.random.Generator, arm: int) -> Seen:
    visits = float(random.geometric(0.4))
    return Seen(revision=arm, came=visits * spent(random, arm).came, per=visits)


CASES = {
    "binary": (Design(candidates=TWO), happens(0.3)),
    "of a tenth": (Design(candidates=(Candidate(revision=2, share=1000),)), happens(0.1)),
    "mean": (Design(candidates=TWO, metric=NUMBER), numbers()),
    "ratio": (Design(candidates=TWO, metric=RATIO), ratios()),
    "covariate": (Design(candidates=TWO, metric=HELPED), helped()),
    "three candidates": (
        Design(candidates=tuple(Candidate(revision=one) for one in (2, 3, 4)), metric=NUMBER),
        numbers(),
    ),
    "what is rare": (Design(candidates=TWO), happens(0.1)),
}


SKEW: dict[str, tuple[float, Metric, Draw]] = {
    "a twentieth": (0.05, NUMBER, spent),
    "a tenth": (0.1, NUMBER, spent),
    "a tenth of a ratio": (0.1, RATIO, per_visit),
}


def false_verdicts(kind: str, tests: int, units: int, seed: int, at_once: int = 1, coming: Coming = "as drawn") -> int:
    random = np.random.default_rng([seed, sorted(CASES).index(kind)])
    design, draw = CASES[kind]
    return sum(ended(design, draw, units, random, at_once, coming).state != "running" for _ in range(tests))


def false_verdicts_of_skewed(kind: str, tests: int, units: int, seed: int, at_once: int) -> int:
    random, (share, metric, draw) = np.random.default_rng([seed, sorted(SKEW).index(kind)]), SKEW[kind]
    design = Design(candidates=(Candidate(revision=2, share=round(10_000 * share)),), metric=metric)
    return sum(ended(design, draw, units, random, at_once).state != "running" for _ in range(tests))


@pytest.mark.parametrize("kind", CASES)
def test_arms_that_are_alike_are_told_apart_by_mistake_in_at_most_one_of_twenty(kind: str) -> None:
    assert false_verdicts(kind, tests=20, units=400, seed=ALIKE, at_once=2) <= 1


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("coming", ["arm by arm", "sorted"])
def test_labels_that_come_arm_by_arm_tell_arms_that_are_alike_apart_no_oftener(kind: str, coming: Coming) -> None:
    assert false_verdicts(kind, tests=20, units=2000, seed=ORDERED, at_once=200, coming=coming) <= 1


@pytest.mark.parametrize("kind", SKEW)
def test_skewed_outcomes_of_a_small_share_are_told_apart_no_oftener(kind: str) -> None:
    assert false_verdicts_of_skewed(kind, tests=20, units=4000, seed=SKEWED, at_once=40) <= 1


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", CASES)
def test_two_thousand_tests_of_the_same_are_looked_at_after_every_unit(kind: str) -> None:
    false = false_verdicts(kind, tests=2000, units=400, seed=ALIKE_HEAVY)
    print(f"{false} false verdicts of 2000")
    assert false <= 100


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize(("coming", "at_once"), [("arm by arm", 20), ("arm by arm", 200), ("sorted", 100)])
def test_five_hundred_tests_of_the_same_whose_labels_come_arm_by_arm(kind: str, coming: Coming, at_once: int) -> None:
    false = false_verdicts(kind, tests=500, units=4000, seed=ORDERED_HEAVY, at_once=at_once, coming=coming)
    print(f"{false} false verdicts of 500")
    assert false <= 25


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", SKEW)
def test_five_hundred_tests_of_skewed_outcomes_are_looked_at_every_twenty_units(kind: str) -> None:
    false = false_verdicts_of_skewed(kind, tests=500, units=4000, seed=SKEWED_HEAVY, at_once=20)
    print(f"{false} false verdicts of 500")
    assert false <= 25


@pytest.mark.parametrize(
    ("metric", "draw", "outcome", "effect"),
    [
        (Metric(), happens(0.3, 0.15), planning.binary(0.3), 0.15),
        (NUMBER, numbers(0.8), planning.Outcome(mean=math.exp(0.5), deviation=2.16), 0.8),
    ],
)
def test_a_known_effect_is_found_by_the_units_that_were_promised(
    metric: Metric, draw: Draw, outcome: planning.Outcome, effect: float
) -> None:
    random = np.random.default_rng(FOUND)
    promised = math.ceil(planning.rows_needed(outcome, effect))
    found = [ended(Design(candidates=TWO, metric=metric), draw, promised, random, 10) for _ in range(60)]
    assert all(one.winner in (0, 2) for one in found)
    assert sum(one.state == "won" for one in found) >= 40  # of 48 that are expected, with a power of 0.8


def test_what_was_known_before_finds_the_same_effect_with_fewer_units() -> None:
    random, draw = np.random.default_rng(NEARER), helped(0.4)

    def alone(random: np.random.Generator, arm: int) -> Seen:
        return replace(draw(random, arm), known=None)

    with_it = [ended(Design(candidates=TWO, metric=HELPED), draw, 3000, random, 50) for _ in range(12)]
    without = [ended(Design(candidates=TWO, metric=NUMBER), alone, 3000, random, 50) for _ in range(12)]
    assert all(one.state == "won" for one in with_it)
    assert np.mean([one.units for one in with_it]) < np.mean([one.units for one in without]) / 2


def test_a_ratio_that_rises_is_found_and_one_that_falls_loses() -> None:
    random = np.random.default_rng(LOST)
    design = Design(candidates=TWO, metric=RATIO)
    assert {ended(design, ratios(0.3), 4000, random, 50).state for _ in range(8)} == {"won"}
    assert {ended(design, ratios(-0.3), 4000, random, 50).state for _ in range(8)} == {"lost"}


def test_arms_that_are_alike_are_told_to_be_where_a_least_effect_was_given() -> None:
    random = np.random.default_rng(SAME)
    design = Design(candidates=TWO, least_effect=0.15)
    found = [ended(design, happens(0.3), 4000, random, 50).state for _ in range(12)]
    assert found.count("same") >= 11
