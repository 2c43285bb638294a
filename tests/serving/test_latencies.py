"""Latencies as counts."""

import random

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.latencies import BOUNDS, BUCKETS, added, bucket_of, quantile

seconds = st.floats(1e-6, 60.0)


def counted(latencies: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for one in latencies:
        counts[bucket_of(one)] += 1
    return counts


def test_bounds_rise_from_fifty_microseconds_to_a_minute():
    assert BOUNDS[0] == 50e-6
    assert 60 < BOUNDS[-1] < 120
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert BUCKETS <= 200


@given(seconds)
def test_a_latency_lies_within_its_bucket(latency: float):
    bucket = bucket_of(latency)
    assert latency <= BOUNDS[bucket]
    assert bucket == 0 or latency > BOUNDS[bucket - 1]


def test_what_takes_longer_than_the_last_bound_is_counted_too():
    assert bucket_of(3600.0) == BUCKETS - 1
    assert quantile(counted([3600.0]), 0.5) == BOUNDS[-1]


@given(st.lists(st.lists(seconds, max_size=30), max_size=5))
def test_counts_of_several_workers_add_up(workers: list[list[float]]):
    together = [one for latencies in workers for one in latencies]
    assert added(counted(latencies) if latencies else () for latencies in workers) == tuple(
        counted(together) if together else ()
    )


def test_a_quantile_is_off_by_a_tenth_at_most():
    draw = random.Random(5)
    latencies = sorted(draw.lognormvariate(-6, 1) for _ in range(5000))
    counts = counted(latencies)
    for share in (0.5, 0.9, 0.99):
        exact = latencies[int(share * len(latencies)) - 1]
        assert abs(quantile(counts, share) / exact - 1) < 0.1


@given(st.lists(seconds, min_size=1, max_size=50), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_quantiles_rise_with_their_share(latencies: list[float], one: float, other: float):
    counts = counted(latencies)
    assert quantile(counts, min(one, other)) <= quantile(counts, max(one, other))
    assert 0 < quantile(counts, one) <= BOUNDS[bucket_of(max(latencies))]


def test_without_calls_a_quantile_is_nothing():
    assert quantile([0] * BUCKETS, 0.99) == 0.0
    assert quantile((), 0.5) == 0.0
