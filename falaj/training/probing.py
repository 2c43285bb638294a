"""Finds by trying what no table knows: how many rows fit into memory, how many processes a loader needs.

Pure: whoever asks says how to try.
"""

import math
from collections.abc import Callable
from typing import Final

from falaj.base.values import value

_NOT_COUNTED: Final = 4  # batches after a change: processes start, programs are compiled
_COUNTED: Final = 8  # batches that decide
_WAITING: Final = 0.02  # of a step; less is not worth a process
HANDED_OVER: Final = 0.001  # seconds that it takes to receive a batch from another process
_SPARE: Final = 1.2  # times as many processes as would just suffice
_UNEVEN: Final = 2.0  # times the mean; some batches take so much longer that more must lie ready
_SLOWER: Final = 1.25  # times the best step: so many processes take the training's own cores, and no noise does that
_GAINED: Final = 0.98
_MOST_ROWS: Final = 1 << 20


def largest_batch(fits: Callable[[int], bool], *, first: int = 1, most: int = _MOST_ROWS) -> int:
    """The largest number of rows for which `fits`, to an eighth; 0 when not even one does.

    Doubled until it does not fit, then halved in between: memory grows with the rows, so that about ten tries suffice.
    """
    fitting, rows = 0, min(first, most)
    while rows <= most and fits(rows):
        fitting, rows = rows, rows * 2
    too_many = min(rows, most + 1)
    while not fitting and rows > 1:
        rows //= 2
        fitting, too_many = (rows, too_many) if fits(rows) else (0, rows)
    while fitting and too_many - fitting > max(1, fitting // 8):
        middle = (fitting + too_many) // 2
        fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
    return fitting


@value
class Loading:
    """So many loader processes, each so many batches ahead; and why."""

    workers: int
    ahead: int
    why: str


class LoaderSearch:
    """How many loader processes hide the loading, found while the training runs.

    It begins with none. Told of each batch how long the training waited for it and how long it computed with it, it says
    when to change, and is `done` once nothing is left to gain: the training waits no more, or more processes did not help.
    """

    def __init__(self, cores: int) -> None:
        self.done = False
        self._most = max(1, cores - 1)
        self._now = Loading(workers=0, ahead=0, why="")
        self._best, self._shortest = self._now, float("inf")
        self._told: list[tuple[float, float]] = []

    def told(self, waited: float, computed: float) -> Loading | None:
        """In seconds. Gives what to change to, or None."""
        self._told.append((waited, computed))
        if self.done or len(self._told) < _NOT_COUNTED + _COUNTED:
            return None
        counted = self._told[_NOT_COUNTED:]
        self._told = []
        waited, computed = (sum(one) / _COUNTED for one in zip(*counted, strict=True))
        most = max(one for one, _ in counted)
        step = waited + computed
        found = self._first(waited, computed, most) if not self._now.workers else self._next(waited, step)
        if step < self._shortest:
            self._best, self._shortest = self._now, step
        changed = found.workers != self._now.workers
        if not changed:
            self.done = True
        self._now = found
        return found if changed or self.done else None

    def _first(self, waited: float, computed: float, most: float) -> Loading:
        ms = f"To load a batch takes {waited * 1e3:.1f} ms, to compute with it {computed * 1e3:.1f} ms"
        if waited <= _WAITING * (waited + computed) or waited < HANDED_OVER:
            return Loading(workers=0, ahead=0, why=f"{ms}: processes of its own would gain nothing.")
        workers = min(self._most, max(1, math.ceil(_SPARE * waited / max(computed, 1e-6))))
        ahead = 8 if most > _UNEVEN * waited else 4
        return Loading(workers=workers, ahead=ahead, why=f"{ms}: {workers} beside the training, {ahead} batches ahead each.")

    def _next(self, waited: float, step: float) -> Loading:
        now, share = self._now, f"{100 * waited / step:.1f} %"
        if step > _SLOWER * self._shortest:
            self.done = True
            shorter = f"with {self._best.workers} {self._shortest * 1e3:.1f} ms"
            why = f"With loader processes, {now.workers} of them, a step took {step * 1e3:.1f} ms, {shorter}."
            return Loading(workers=self._best.workers, ahead=self._best.ahead, why=why)
        said = f"{now.why} {share} of a step is spent waiting for them."
        if waited <= _WAITING * step or now.workers >= self._most or step > _GAINED * self._shortest:
            return Loading(workers=now.workers, ahead=now.ahead, why=said)
        workers = min(self._most, 2 * now.workers)
        return Loading(workers=workers, ahead=now.ahead, why=f"{now.why} That was too few: now {workers}.")
