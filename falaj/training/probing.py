"""Finds by trying what no table knows: how many rows fit into memory, how many processes a loader needs.

Pure: whoever asks says how to try.
"""

from collections.abc import Callable
from typing import Final

_WORTH: Final = 1.05  # so much faster must a loader be to be given more processes
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


def enough_workers(rate: Callable[[int], float], *, cores: int, wanted: float = float("inf")) -> int:
    """The fewest loader processes that give `wanted` batches a second, or after which more of them gain nothing.

    `rate(workers)` measures batches a second; 0 workers load in the training's own process.
    """
    best, fastest = 0, rate(0)
    workers = 1
    while fastest < wanted and workers <= max(1, cores - 1):
        measured = rate(workers)
        if measured > fastest * _WORTH:
            best, fastest = workers, measured
        elif workers > 1:
            break
        workers *= 2
    return best
