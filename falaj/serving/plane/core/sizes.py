"""How many rows a model runs at once: learned from how long batches took, within what the latency objective leaves.

A batch grows while more wait than it takes and while a row gets cheaper by it; it shrinks where a run takes too long.
"""

from typing import Final

MOST_ROWS: Final = 4096
_CLASSES: Final = MOST_ROWS.bit_length() + 1
_NEW: Final = 0.1  # weight of the newest run in what is remembered
_FIRST: Final = 4  # runs of a new size, of which the fastest counts: memory is got and kernels are chosen in them
_OUTLIER: Final = 4.0  # a run that took so many times as long was interrupted, and counts as having taken so much
_WORTH: Final = 0.97  # a row must get cheaper by this factor, or the larger batch is not worth the longer wait
_THINKS_EVERY: Final = 16  # full batches
_TRIES_AGAIN: Final = 256  # times that growing was thought of in vain: the machine may have changed


class BatchSize:
    """`size` is the present choice; `row_seconds` what a row takes in batches of about that size; `rows_allowed` may wait so
    that the last of them still meets the objective. Belongs to whoever runs the batches; others may read."""

    __slots__ = (
        *("_class", "_declined", "_full", "_longest", "_per_row", "_seen"),
        *("objective", "row_seconds", "rows_allowed", "size"),
    )

    def __init__(self, start: int, row_seconds: float, *, objective: float, longest: float) -> None:
        """`row_seconds` is what a row took in batches of `start`; 0 where nobody knows."""
        self.size = max(1, min(start, MOST_ROWS))
        self.row_seconds = row_seconds
        self.rows_allowed = MOST_ROWS
        self._class = (self.size - 1).bit_length()
        self._per_row = [0.0] * _CLASSES  # seconds, by the number of rows that ran together, in powers of two
        self._per_row[self._class] = row_seconds
        self._seen = [0] * _CLASSES  # runs of each of them, up to the number of first ones
        self._seen[self._class] = _FIRST if row_seconds else 0
        self._full = 0
        self._declined = 0
        self.aim(objective, longest)

    def aim(self, objective: float, longest: float) -> None:
        """The objective in seconds, and the longest that one run may take."""
        self.objective, self._longest = objective, longest
        while self.size > 1 and self.size * self.row_seconds > longest:
            self._resize(self.size // 2)
        if self.row_seconds > 0:
            self.rows_allowed = int(objective / self.row_seconds)

    def observe(self, rows: int, seconds: float, more: bool) -> None:
        """A run took so long; `more` says whether others had to wait for the next one."""
        kind = min((rows - 1).bit_length(), _CLASSES - 1)
        per_row, before = seconds / rows, self._per_row[kind]
        if self._seen[kind] < _FIRST:
            self._seen[kind] += 1
            per_row = min(per_row, before) if before else per_row
        elif before:
            per_row = before + (min(per_row, before * _OUTLIER) - before) * _NEW
        self._per_row[kind] = per_row
        if kind == self._class or not self._per_row[self._class]:
            self.row_seconds = per_row
            self.rows_allowed = int(self.objective / per_row) if per_row > 0 else MOST_ROWS
        if rows > self.size // 2:
            if per_row * self.size > self._longest:
                self._resize(self.size // 2)
            elif more:
                self._full += 1
                if self._full >= _THINKS_EVERY:
                    self._full = 0
                    self._think()

    def wait(self, rows: int) -> float:
        """About how long so many rows take."""
        return rows * self.row_seconds

    def _resize(self, size: int) -> None:
        self.size = max(1, min(size, MOST_ROWS))
        self._class = (self.size - 1).bit_length()

    def _think(self) -> None:
        kind = self._class
        now, smaller, larger = self._per_row[kind], self._per_row[kind - 1] if kind else 0.0, self._per_row[kind + 1]
        if smaller and now > smaller * _WORTH and self.size > 1:
            self._resize(self.size // 2)
        elif self.size * 2 <= MOST_ROWS and now * self.size * 2 <= self._longest:
            if not larger or larger < now * _WORTH:
                self._resize(self.size * 2)
            else:
                self._declined += 1
                if self._declined >= _TRIES_AGAIN:
                    self._declined = 0
                    self._per_row[kind + 1], self._seen[kind + 1] = 0.0, 0
