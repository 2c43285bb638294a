"""Whether the mean of a stream of losses has changed, and since when, asked for ever with a stated rate of false alarms.

As in ADWIN, a window grows in buckets that double as they age, so that it takes little memory and any of their borders may
be where the change lies. Each border is judged by an e-process: losses before and after it are held, each by a mixture of all
means, against the one mean that would explain both together best. That is a bet which, where nothing changes, gains nothing on
average at any time, for losses of 0 and 1 and for all between. Borders share the rate of false alarms: the k-th block of rows
has 1 / (k * (k + 1)) of it, which for all together, for ever, comes to 1.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from falaj.base.values import value
from falaj.statistics.rates import mixed

BLOCK: Final = 32  # rows between two borders, and two looks
_MOST: Final = 6  # buckets of one size


@value
class Bucket:
    blocks: int
    total: float


@value
class Change:
    """`since` is the row, counted from the first that was ever seen, from which on the mean was another."""

    since: int
    seen: int
    before: float
    after: float


@value
class Window:
    """What is known of a stream. While nothing changes, the chance that a change is ever called is at most `rate`, from the
    beginning; after each change that is called, all begins anew. The oldest bucket comes first."""

    rate: float = 0.01
    start: int = 0
    buckets: tuple[Bucket, ...] = ()
    waiting: tuple[float, ...] = ()

    def grown(self, losses: ArrayLike) -> "tuple[Window, tuple[Change, ...]]":
        """With more losses, from 0 to 1; one that is not a number says nothing and is passed over."""
        more = np.asarray(losses, dtype=np.float64).ravel()
        rows = np.concatenate([self.waiting, np.clip(more[~np.isnan(more)], 0.0, 1.0)])
        whole = len(rows) // BLOCK
        window, found = replace(self, waiting=tuple(map(float, rows[whole * BLOCK :]))), []
        for total in rows[: whole * BLOCK].reshape(whole, BLOCK).sum(axis=1):
            window = replace(window, buckets=_merged((*window.buckets, Bucket(blocks=1, total=float(total)))))
            change = window._change()
            if change:
                found.append(change)
                window = replace(window, start=change.seen, buckets=())
        return window, tuple(found)

    def mean(self) -> float:
        """Of the losses since the last change."""
        blocks = sum(one.blocks for one in self.buckets)
        return sum(one.total for one in self.buckets) / (blocks * BLOCK) if blocks else math.nan

    def _change(self) -> Change | None:
        blocks, total = sum(one.blocks for one in self.buckets), sum(one.total for one in self.buckets)
        together = _explained(blocks * BLOCK, total)
        strongest, found = math.log(1 / self.rate), None
        before, sum_before = 0, 0.0
        for bucket in self.buckets[:-1]:
            before, sum_before = before + bucket.blocks, sum_before + bucket.total
            after, sum_after = blocks - before, total - sum_before
            bet = mixed(before * BLOCK, sum_before) + mixed(after * BLOCK, sum_after) - together
            bet -= math.log(before * (before + 1))
            if bet >= strongest:
                strongest = bet
                found = Change(
                    since=self.start + before * BLOCK,
                    seen=self.start + blocks * BLOCK,
                    before=sum_before / (before * BLOCK),
                    after=sum_after / (after * BLOCK),
                )
        return found


def _merged(buckets: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
    """The two oldest of a size become one of twice that, where there are too many."""
    size = 1
    while sum(one.blocks == size for one in buckets) > _MOST:
        first = next(place for place, one in enumerate(buckets) if one.blocks == size)
        both = Bucket(blocks=2 * size, total=buckets[first].total + buckets[first + 1].total)
        buckets, size = (*buckets[:first], both, *buckets[first + 2 :]), 2 * size
    return buckets


def _explained(rows: int, total: float) -> float:
    """The logarithm of how likely losses are by the one mean that explains them best."""
    return sum(part * math.log(part / rows) for part in (total, rows - total) if part > 0)
