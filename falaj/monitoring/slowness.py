"""Calls that took longer than an endpoint's objective, as far as the buckets of latencies tell: to a tenth of the time."""

from falaj.serving.counts import Counts
from falaj.serving.latencies import bucket_of


def slow_calls(counts: Counts, latency_ms: int) -> int:
    """Of those that were answered; the bucket that the objective lies in counts as within it."""
    return sum(counts.latencies[bucket_of(latency_ms / 1000) + 1 :])
