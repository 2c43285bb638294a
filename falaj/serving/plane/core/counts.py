"""What one revision did since it was last told, and each form of it ever: plain numbers, added to once per batch."""

from bisect import bisect_left
from collections.abc import Sequence

from falaj.serving.latencies import BOUNDS, BUCKETS
from falaj.serving.operations.planes import RevisionReport, RungReport


class Tally:
    """What one form of a revision did since it was made known: predictions that it answered, their rows, and how often its
    worker fell to it."""

    __slots__ = ("falls", "requests", "rows")

    def __init__(self) -> None:
        self.requests = self.rows = self.falls = 0


class Counts:
    """`requests` counts every answer, good or bad; `errors` the bad ones among them; `shed` what was refused for want of time
    or room, which is in neither; `aside` what was given to a second place."""

    __slots__ = ("aside", "batches", "cold_start_ms", "compared", "differed", "errors", "latencies", "requests", "rows", "shed")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.cold_start_ms = 0.0  # told once, when it was made
        self.requests = self.errors = self.shed = self.rows = self.batches = self.compared = self.differed = self.aside = 0
        self.latencies = [0] * BUCKETS

    def answered(self, arrivals: Sequence[float], now: float, rows: int) -> None:
        self.requests += len(arrivals)
        self.rows += rows
        latencies = self.latencies
        for arrived in arrivals:
            latencies[bisect_left(BOUNDS, now - arrived)] += 1

    def failed(self) -> None:
        self.requests += 1
        self.errors += 1

    def report(
        self,
        endpoint: str,
        revision: int,
        *,
        ready: bool,
        problem: str,
        quarantined: bool,
        batch_size: int,
        rungs: tuple[RungReport, ...] = (),
    ) -> RevisionReport:
        """Says it, and begins anew."""
        said = RevisionReport(
            endpoint=endpoint,
            revision=revision,
            ready=ready,
            problem=problem[:2000],
            quarantined=quarantined,
            requests=self.requests,
            errors=self.errors,
            shed=self.shed,
            rows=self.rows,
            batches=self.batches,
            compared=self.compared,
            differed=self.differed,
            aside=self.aside,
            latencies=tuple(self.latencies) if self.requests else (),
            cold_start_ms=self.cold_start_ms,
            batch_size=batch_size,
            rungs=rungs,
        )
        self.clear()
        return said
