"""How long calls took, as counts in fixed buckets: cheap to count, and to be added over workers, planes and minutes.

Four buckets to a doubling, from 50 microseconds to a minute; read back, a quantile is off by a tenth at most.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

_FIRST: Final = 50e-6
_TO_A_DOUBLING: Final = 4

# Upper bounds in seconds, included; a last bucket, without a bound, counts what is longer.
BOUNDS: Final = tuple(_FIRST * 2 ** (index / _TO_A_DOUBLING) for index in range(82))
BUCKETS: Final = len(BOUNDS) + 1


def bucket_of(seconds: float) -> int:
    return bisect_left(BOUNDS, seconds)


def added(several: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Counts bucket by bucket; empty ones count as nothing."""
    full = [counts for counts in several if counts]
    return tuple(map(sum, zip(*full, strict=True))) if full else ()


def quantile(counts: Sequence[int], share: float) -> float:
    """The seconds within which `share` of the calls were answered, taken as evenly spread in a bucket; 0.0 without calls."""
    total = sum(counts)
    if total == 0:
        return 0.0
    wanted = share * total
    sums = list(accumulate(counts))
    index = min(bisect_left(sums, wanted), len(sums) - 1)
    while counts[index] == 0:  # a quantile on the border of two buckets belongs to the one that has calls
        index += 1
    upper = BOUNDS[min(index, len(BOUNDS) - 1)]
    lower = BOUNDS[index - 1] if index else 0.0
    within = (wanted - (sums[index] - counts[index])) / counts[index]
    return lower + (upper - lower) * max(0.0, within)
