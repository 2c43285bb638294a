"""Watches revisions inside a serving worker, in memory that does not grow with traffic: what `Watch` in the state asks for is
counted, window by window, and told as `WatchReport`.

Rows wait until there are some to be counted together, which costs a fraction of counting batch by batch. A row belongs to the
window in which it is looked at, a moment after it was answered. Counts are told every few seconds and with the end of a window,
sketches and sampled rows with the end of a window or a quarter of a long one: a worker that is killed loses what it counted in
the last five seconds, rows that wait to be looked at, and the sketches and samples of a minute or a quarter of a window,
whichever is longer. It cannot tell of that; who holds `rows` against the requests that were answered sees it. What a tap is too
slow for is told as missed.
"""

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from falaj.base.clock import SECOND, Clock, Moment, SystemClock
from falaj.monitoring.plane.frames import Frame, scores_among
from falaj.monitoring.plane.tallies import Tally
from falaj.serving.operations.planes import WatchReport
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.core.taps import Seen, Tap
from falaj.serving.states import Endpoint, Revision, State, Watch

log = logging.getLogger(__name__)
_TELLS: Final = 5 * SECOND
_PART: Final = 60 * SECOND  # of a window, at least, for which sketches and rows are kept before they are told
_ROWS: Final = 2048  # counted together
_BYTES: Final = 4 * 1024 * 1024


def watch_tap(_folder: Path) -> "WatchTap":
    """As serving planes make their taps. It keeps nothing in the folder."""
    return WatchTap(SystemClock(), np.random.default_rng())


class WatchTap(Tap):
    share = WHOLE

    def __init__(self, clock: Clock, random: np.random.Generator) -> None:
        self._clock, self._random = clock, random
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._reports: deque[WatchReport] = deque()

    def wants(self, endpoint: Endpoint, revision: Revision) -> bool:
        return revision.watch is not None

    def adopt(self, state: State) -> None:
        """What was seen by another plan is told by that."""
        before, self._watched = self._watched, {}
        for endpoint in state.endpoints:
            for revision in endpoint.revisions:
                if revision.watch is not None:
                    key = endpoint.id, revision.number
                    known = before.get(key)
                    if known is not None and known.is_by(revision.watch, endpoint.masked):
                        self._watched[key] = before.pop(key)
                    else:
                        self._watched[key] = _Watched(endpoint, revision.number, revision.watch, self._random)
        for one in before.values():
            self._reports += one.end()

    def see(self, seen: Seen) -> None:
        one = self._watched.get((seen.endpoint, seen.revision))
        if one is not None:
            self._reports += one.turn(self._clock.now())
            one.add(seen)

    def miss(self, endpoint: str, revision: int, rows: int) -> None:
        one = self._watched.get((endpoint, revision))
        if one is not None:
            self._reports += one.turn(self._clock.now())
            one.missed += rows

    def wake(self) -> None:
        now = self._clock.now()
        for one in self._watched.values():
            self._reports += one.turn(now)
            self._reports += one.tell(now)

    def take(self) -> Sequence[WatchReport]:
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def close(self) -> None:
        for one in self._watched.values():
            self._reports += one.end()


class _Watched:
    """One revision, by one plan."""

    def __init__(self, endpoint: Endpoint, revision: int, watch: Watch, random: np.random.Generator) -> None:
        self.missed = 0
        self._endpoint, self._masked, self._revision, self._watch = endpoint.id, endpoint.masked, revision, watch
        self._tally = Tally(watch, random)
        self._rows = 0
        self._waiting: list[Seen] = []
        self._tails: list[tuple[int, ...]] = []  # the shapes of what waits, without rows
        self._rows_waiting = self._bytes_waiting = 0
        self._at = self._until = self._told = self._part = 0  # moments: of the window, and when counts and parts were told
        self._scores: int | None = None
        self._knows_scores = self._has_failed = False

    def is_by(self, watch: Watch, masked: Sequence[str]) -> bool:
        return (self._watch, tuple(self._masked)) == (watch, tuple(masked))

    def add(self, seen: Seen) -> None:
        arrays, start = (*seen.inputs, *seen.outputs), 1 if seen.shape.batches else 0
        tails = [array.shape[start:] for array in arrays]
        if tails != self._tails:  # what differs in these cannot be counted together
            self._count()
            self._tails = tails
        self._waiting.append(seen)
        self._rows_waiting += seen.rows
        self._bytes_waiting += sum([array.nbytes for array in arrays])
        if self._rows_waiting >= _ROWS or self._bytes_waiting >= _BYTES:
            self._count()

    def turn(self, now: Moment) -> list[WatchReport]:
        """To the window of this moment; what is told of the one before, where that is over."""
        if self._at <= now < self._until:
            return []
        told = self.end()
        length = self._watch.seconds * SECOND
        self._at = self._told = now - now % length
        self._part = int(now)
        self._until = self._at + length
        return told

    def tell(self, now: Moment) -> list[WatchReport]:
        """What there is to tell meanwhile."""
        if now - self._told < _TELLS:
            return []
        self._told = int(now)
        is_part = now - self._part >= max(_PART, self._watch.seconds * SECOND // 4)
        if is_part:
            self._part = int(now)
        return self._report(whole=is_part)

    def end(self) -> list[WatchReport]:
        return self._report(whole=True)

    def _report(self, *, whole: bool) -> list[WatchReport]:
        self._count()
        sketches, sampled = (self._tally.sketches(), self._tally.sampled()) if whole else ((), ())
        if not (self._rows or self.missed or sketches or sampled):
            return []
        report = WatchReport(
            endpoint=self._endpoint,
            revision=self._revision,
            plan=self._watch.key,
            at=Moment(self._at),
            seconds=self._watch.seconds,
            rows=self._rows,
            missed=self.missed,
            columns=self._tally.told(),
            sketches=sketches,
            sampled=sampled,
        )
        self._rows = self.missed = 0
        return [report]

    def _count(self) -> None:
        waiting, rows = self._waiting, self._rows_waiting
        self._waiting, self._rows_waiting, self._bytes_waiting = [], 0, 0
        if not waiting:
            return
        try:
            self._tally.add(self._frame(waiting, rows))
            self._rows += rows
        except Exception:  # one model's odd answers must not end the watching of all others
            self.missed += rows
            if not self._has_failed:
                log.exception("revision %d of %s cannot be watched", self._revision, self._endpoint)
            self._has_failed = True

    def _frame(self, waiting: Sequence[Seen], rows: int) -> Frame:
        shape = waiting[0].shape
        if len(waiting) == 1 and shape.batches:
            inputs, outputs = waiting[0].inputs, waiting[0].outputs
        else:
            join = np.concatenate if shape.batches else np.stack
            inputs = [join(some) for some in zip(*[one.inputs for one in waiting], strict=True)]
            outputs = [join(some) for some in zip(*[one.outputs for one in waiting], strict=True)]
        if not self._knows_scores:
            self._scores, self._knows_scores = scores_among(shape, outputs, rows), True
        return Frame(shape, inputs, outputs, rows, self._masked, self._scores)
