"""What is promised before an experiment, against what its sequence delivers. Seeds were drawn after every threshold was set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.statistics.contests import FEWEST
from falaj.statistics.planning import Design, Outcome, binary, duration, least_effect, rows_needed
from tests.statistics.two_arms import TwoArms

EXPERIMENTS = 100


def decided(random, begun, draw, effect, promised):
    """After how many rows each experiment is decided, looked at a hundred times before the rows that are promised."""
    step = max(10, round(promised / 100))
    found = []
    for _ in range(EXPERIMENTS):
        going, rows = begun, 0
        while rows < 6 * promised and not going.contest.excludes(0.0):
            drawn = random.random(step) < begun.share
            going = going.drawn(drawn, draw(random, drawn, effect))
            rows += step
        found.append(rows)
    return np.array(found)


def happens(random, drawn, effect):
    return (random.random(len(drawn)) < 0.1 + effect * drawn).astype(float)


def bounded(random, drawn, effect):
    return random.beta(2, 2, len(drawn)) * 4 + effect * drawn


def numbers(random, drawn, effect):
    return random.normal(20, 5, len(drawn)) + effect * drawn


CASES = [
    (happens, binary(0.1), TwoArms(share=0.5, low=0.0, high=1.0), 0.05),
    (happens, binary(0.1), TwoArms(share=0.2, low=0.0, high=1.0), -0.05),
    (bounded, Outcome(mean=2.0, deviation=4 * math.sqrt(0.05), width=5.0), TwoArms(share=0.5, low=0.0, high=5.0), 0.15),
    (numbers, Outcome(mean=20.0, deviation=5.0), TwoArms(share=0.5), 0.8),
]


@pytest.mark.parametrize(("draw", "outcome", "begun", "effect"), CASES)
def test_half_of_the_experiments_are_decided_when_it_is_promised(draw, outcome, begun, effect):
    promised = rows_needed(outcome, effect, Design(share=begun.share, power=0.5))
    found = decided(np.random.default_rng(39_088), begun, draw, effect, promised)
    assert np.median(found) == pytest.approx(promised, rel=0.3)


def test_four_in_five_are_decided_by_the_rows_that_four_in_five_need():
    promised = rows_needed(binary(0.1), 0.05)
    found = decided(np.random.default_rng(63_245), CASES[0][2], happens, 0.05, promised)
    assert np.mean(found <= promised) >= 0.8 - 2 * math.sqrt(0.16 / EXPERIMENTS)
    assert np.mean(found <= promised / 2) < 0.5


@settings(max_examples=40)
@given(st.floats(0.02, 0.5), st.floats(0.01, 0.3), st.floats(0.1, 0.9))
def test_rows_and_effect_say_the_same(share, effect, split):
    design = Design(share=split)
    rows = rows_needed(binary(share), effect, design)
    assert least_effect(binary(share), rows, design) == pytest.approx(effect, rel=0.02)
    assert rows_needed(binary(share), effect / 2, design) > 2 * rows


def test_a_sequence_takes_more_rows_than_one_look_but_not_many_times_more():
    once = 1366  # 10 % against 15 %, half of the rows each, four times in five
    assert once < rows_needed(binary(0.1), 0.05) < 3.5 * once


def test_less_to_be_sure_of_takes_less():
    rows = rows_needed(Outcome(mean=0.0, deviation=2.0), 0.3)
    assert rows_needed(Outcome(mean=0.0, deviation=1.0), 0.3) < rows
    assert rows_needed(Outcome(mean=0.0, deviation=2.0), 0.3, Design(confidence=0.8)) < rows
    assert rows_needed(Outcome(mean=0.0, deviation=2.0), 0.3, Design(share=0.1)) > rows


def test_without_bounds_nothing_is_promised_before_either_arm_has_rows_enough():
    assert rows_needed(Outcome(mean=0.0, deviation=1.0), 5.0, Design(share=0.05)) == pytest.approx(FEWEST / 0.05, rel=0.01)


def test_no_effect_and_no_traffic_take_for_ever():
    assert rows_needed(binary(0.1), 0.0) == math.inf
    assert least_effect(binary(0.1), 3) == math.inf
    assert least_effect(binary(0.1), 0) == math.inf
    assert duration(1000, 0) == math.inf
    assert duration(3600, 0.5) == 7200
    with pytest.raises(ValueError, match="between 0 and 1"):
        Design(share=1.0)
