"""What runs next: of the requests that wait those that go together, and of one that is larger than a batch its next piece.

Who runs them, on the loop or in a thread, and answers them is `batches`.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeAlias

import numpy as np

from falaj.runtimes.engine import Array
from falaj.serving.plane.asking import DeadlinePassed
from falaj.serving.plane.core.gathering import Item, Tails

# Runs a request that is larger than a batch, one piece at each step; ends with what was given, what the model said, and how
# often it ran.
Pieces: TypeAlias = Generator[None, None, tuple[list[Array], list[Array], int]]
_LOOKS_AHEAD: Final = 256  # requests, for others of the same shape


def pick(
    waiting: deque[Item], now: float, limit: int, fixed: bool, together: bool, *, alone: bool = True
) -> tuple[list[Item], int, list[Item]]:
    """The next batch and its rows, and those nobody waits for any more; all of them leave `waiting`. With `fixed` all have the
    same shapes, without `together` each runs by itself. A request of more rows than `limit` comes alone, if it may."""
    batch: list[Item] = []
    dropped: list[Item] = []
    passed: list[Item] = []
    tails: Tails = ()
    rows = 0
    while waiting:
        item = waiting.popleft()
        ask = item[0]
        if ask.reply.gone or (ask.deadline is not None and ask.deadline <= now):
            dropped.append(item)
            continue
        if rows + item[2] > limit and (batch or not alone):
            waiting.appendleft(item)
            break
        if not batch:
            tails = item[4]
        elif not fixed and item[4] != tails:
            passed.append(item)
            if len(passed) >= _LOOKS_AHEAD:
                break
            continue
        batch.append(item)
        rows += item[2]
        if rows >= limit or not together:
            break
    if passed:
        waiting.extendleft(reversed(passed))
    return batch, rows, dropped


def run_in_pieces(item: Item, arrays: list[Array], size: int, run: Callable[[list[Array], int], Sequence[Array]]) -> Pieces:
    """Raises `DeadlinePassed` between two pieces where nobody waits for the answer any more."""
    ask, rows, pieces = item[0], item[2], []
    for start in range(0, rows, size):
        if ask.reply.gone or (ask.deadline is not None and ask.deadline <= time.monotonic()):
            raise DeadlinePassed("The deadline passed before the whole answer was there.")
        pieces.append(run([array[start : start + size] for array in arrays], min(size, rows - start)))
        yield
    return arrays, [np.concatenate(parts) for parts in zip(*pieces, strict=True)], len(pieces)
