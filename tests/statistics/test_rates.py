"""Rates of two sides, looked at all the time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.statistics.rates import evidence_above, evidence_of_more, least_excess, mixed

COUNT = st.integers(0, 2**62)


@given(COUNT, COUNT, COUNT, COUNT, st.floats(-1, 1))
def test_any_counts_give_evidence_that_is_a_number(hits: int, rows: int, other: int, others: int, margin: float) -> None:
    for found in (evidence_of_more(hits, rows, other, others, margin), evidence_above(hits, rows, abs(margin))):
        assert found >= 0
        assert math.isfinite(found)


def test_losses_between_nothing_and_one_fool_nobody_more_often_either() -> None:
    random, fooled = np.random.default_rng(1_866_901_630), 0
    for _ in range(200):
        losses = (
            random.choice([random.beta(0.3, 0.6, (100, 10, 2)), random.random((100, 10, 2)) * 2 / 3]).sum(axis=1).cumsum(axis=0)
        )
        worst = max(evidence_of_more(a, 10 * at + 10, b, 10 * at + 10) for at, (a, b) in enumerate(losses.tolist()))
        fooled += worst >= math.log(20)
    assert fooled <= 10


@given(st.integers(1, 2000), st.data())
def test_a_rate_that_is_not_above_is_no_evidence_at_all(rows: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, rows))
    assert evidence_of_more(hits, rows, hits, rows) == 0
    assert evidence_of_more(rows - hits, rows, rows, rows) == 0


@pytest.mark.parametrize("counts", [(20, 100, 9, 900), (20, 20, 0, 180), (600, 1000, 10, 9000), (40, 400, 4, 400)])
def test_what_is_shown_is_the_largest_margin_that_is(counts: tuple[int, int, int, int]) -> None:
    wanted = math.log(1000)
    least = least_excess(*counts, wanted)
    assert 0 < least < counts[0] / counts[1] - counts[2] / counts[3]
    assert evidence_of_more(*counts, least - 1e-6) >= wanted > evidence_of_more(*counts, least + 1e-6)


def test_the_best_rates_of_the_claim_are_found() -> None:
    """Against all pairs of rates that keep to it."""
    hits, rows, other, others, margin = 30, 200, 10, 300, 0.02
    found = evidence_of_more(hits, rows, other, others, margin)
    best = -math.inf
    for rate in np.linspace(0.0005, 0.9, 4000):
        for first in (rate + margin, rate):
            if first < 1:
                likely = hits * math.log(first) + (rows - hits) * math.log(1 - first)
                best = max(best, likely + other * math.log(rate) + (others - other) * math.log(1 - rate))
    assert found == pytest.approx(mixed(rows, hits) + mixed(others, other) - best, abs=1e-3)


@pytest.mark.parametrize(("rate", "margin"), [(0.02, 0.0), (0.3, 0.0), (0.05, 0.02)])
def test_whoever_looks_all_the_time_is_fooled_no_more_often_than_was_said(rate: float, margin: float) -> None:
    random = np.random.default_rng(1526062355)
    fooled = 0
    for _ in range(200):
        calls = random.integers(0, 20, (100, 2))
        hits = random.binomial(calls, [rate + margin, rate])
        sums = np.concatenate([calls, hits], axis=1).cumsum(axis=0)
        worst = max(evidence_of_more(int(h), int(n), int(g), int(m), margin) for n, m, h, g in sums)
        fooled += worst >= math.log(20)
    assert fooled <= 10
