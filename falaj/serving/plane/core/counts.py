"""What one revision did since it was last told, and each form of it ever: plain numbers, added to once per batch.

Calls whose caller chose the revision are counted apart: they say how much it did, and not how it does, for whoever may call an
endpoint may send a revision by its number what suits them.
"""

from bisect import bisect_left
from collections.abc import Sequence

from falaj.serving.latencies import BOUNDS, BUCKETS
from falaj.serving.operations.planes import PinnedReport, RevisionReport, RungReport
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.gathering import Item


class Tally:
    """What one form of a revision did since it was made known: predictions that it answered, their rows, and how often its
    worker fell to it."""

    __slots__ = ("falls", "requests", "rows")

    def __init__(self) -> None:
        self.requests = self.rows = self.falls = 0


class Part:
    """`requests` counts every answer, good or bad; `errors` the bad ones among them; `shed` what was refused for want of time
    or room, which is in neither; `aside` what was given to a second place; `unlogged` what was to be logged and had no room."""

    __slots__ = ("aside", "batches", "compared", "differed", "errors", "latencies", "requests", "rows", "shed", "unlogged")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.requests = self.errors = self.shed = self.rows = self.batches = self.compared = self.differed = self.aside = 0
        self.unlogged = 0
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

    @property
    def has_any(self) -> bool:
        return bool(self.requests or self.shed or self.aside or self.compared)


class Counts(Part):
    """Of the calls that the split gave to the revision; the others are in `pinned`."""

    __slots__ = ("cold_start_ms", "pinned")

    def __init__(self) -> None:
        self.pinned = Part()
        super().__init__()

    def clear(self) -> None:
        super().clear()
        self.pinned.clear()
        self.cold_start_ms = 0.0  # told once, when it was made

    def of(self, ask: Ask) -> Part:
        return self.pinned if ask.is_pinned else self

    def answered_both(self, batch: Sequence[Item], now: float, runs: int) -> None:
        """A batch with pinned calls in it; that the model ran counts for the others, where there are any."""
        drawn = [item for item in batch if not item[0].is_pinned]
        pinned = [item for item in batch if item[0].is_pinned]
        for part, items in ((self, drawn), (self.pinned, pinned)):
            part.answered([item[0].arrived for item in items], now, sum(item[2] for item in items))
        (self if drawn else self.pinned).batches += runs

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
            unlogged=self.unlogged,
            latencies=tuple(self.latencies) if self.requests else (),
            cold_start_ms=self.cold_start_ms,
            batch_size=batch_size,
            rungs=rungs,
            pinned=_told_apart(self.pinned) if self.pinned.has_any else None,
        )
        self.clear()
        return said


def _told_apart(part: Part) -> PinnedReport:
    return PinnedReport(
        requests=part.requests,
        errors=part.errors,
        shed=part.shed,
        rows=part.rows,
        batches=part.batches,
        compared=part.compared,
        differed=part.differed,
        aside=part.aside,
        unlogged=part.unlogged,
        latencies=tuple(part.latencies) if part.requests else (),
    )
