"""Verdicts: what counts as worse."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.serving.counts import Counts
from falaj.serving.latencies import BUCKETS, bucket_of
from falaj.serving.verdicts import SIGNIFICANT, Figures, Trial, chance_of_more_errors


def trial(candidate: Counts, incumbent: Counts) -> Trial:
    return Trial(
        project="p",
        endpoint="e",
        candidate=2,
        incumbent=1,
        since=0,
        latency_ms=100,
        of_candidate=candidate,
        of_incumbent=incumbent,
    )


def took(requests: int, seconds: float) -> Counts:
    latencies = [0] * BUCKETS
    latencies[bucket_of(seconds)] = requests
    return Counts(requests=requests, latencies=tuple(latencies))


def by_counting(errors: int, calls: int, other_errors: int, other_calls: int) -> float:
    failed, whole = errors + other_errors, calls + other_calls
    ways = sum(
        math.comb(failed, k) * math.comb(whole - failed, calls - k)
        for k in range(errors, min(calls, failed) + 1)
        if calls - k <= whole - failed
    )
    return ways / math.comb(whole, calls)


@given(st.integers(1, 60), st.integers(0, 60), st.data())
def test_the_chance_is_that_of_fishers_exact_test(calls: int, other_calls: int, data: st.DataObject) -> None:
    errors, other = data.draw(st.integers(0, calls)), data.draw(st.integers(0, other_calls))
    found, exact = chance_of_more_errors(errors, calls, other, other_calls), by_counting(errors, calls, other, other_calls)
    if errors * (calls + other_calls) > (errors + other) * calls:
        assert found == pytest.approx(exact, rel=1e-6)
    else:
        assert found == 1.0


@given(*[st.integers(0, 2**62)] * 4)
@settings(max_examples=50, deadline=2000)
def test_any_counts_give_a_chance(errors: int, calls: int, other_errors: int, other_calls: int) -> None:
    assert 0 <= chance_of_more_errors(errors, calls, other_errors, other_calls) <= 1


@pytest.mark.parametrize(
    ("candidate", "incumbent", "word"),
    [
        (Counts(), Counts(), "well"),
        (Counts(), Counts(requests=10), "unsure"),
        (Counts(requests=10), Counts(), "well"),
        (Counts(requests=1000), Counts(requests=9000), "well"),
        (Counts(requests=1000, errors=1), Counts(requests=9000, errors=9), "well"),
        (Counts(requests=100, errors=1), Counts(requests=900), "well"),
        (Counts(requests=100, errors=20), Counts(requests=900, errors=9), "worse"),
        (Counts(requests=20, errors=20), Counts(requests=180), "worse"),
        (Counts(requests=1000, errors=10), Counts(requests=9000, errors=900), "well"),
        (Counts(requests=10, errors=10), Counts(), "well"),  # nothing to compare with
    ],
)
def test_more_errors_than_chance_explains_are_worse(candidate: Counts, incumbent: Counts, word: str) -> None:
    assert Figures().judge(trial(candidate, incumbent)).word == word


def test_missing_an_objective_that_the_incumbent_holds_is_worse() -> None:
    judgement = Figures().judge(trial(took(1000, 0.4), took(1000, 0.01)))
    assert judgement.word == "worse"
    assert "objective is 100 ms" in judgement.reason
    assert Figures().judge(trial(took(1000, 0.4), took(1000, 0.4))).word == "well"
    assert Figures().judge(trial(took(100, 0.4), took(1000, 0.01))).word == "well"


def test_alike_revisions_are_seldom_called_worse() -> None:
    """With one error in a hundred on both sides, over every number of errors that is at all likely."""
    chance = 0.0
    for errors in range(60):
        found = chance_of_more_errors(errors, 1000, 90, 9000)
        likely = math.comb(1000, errors) * 0.01**errors * 0.99 ** (1000 - errors)
        chance += likely if found < SIGNIFICANT else 0.0
    assert chance < 10 * SIGNIFICANT


def test_counts_beyond_all_reason_give_a_chance_too():
    assert 0 <= chance_of_more_errors(1, 2, 1, 144115188075855863) <= 1
