"""What Prometheus scrapes: calls by operation and status, how long they took, what is under way."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """One registry per application, so that two in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter(
            "falaj_calls_total", "Calls by operation and HTTP status.", ["operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "falaj_call_seconds",
            "Duration of calls.",
            ["operation"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )
        self.under_way = Gauge("falaj_calls_under_way", "Calls being answered now.", registry=self.registry)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
