"""What becomes of the promised rate of false alarms, which takes independent rows for granted, where rows come in clusters."""

import numpy as np
import pytest

from tests.monitoring.simulations import seeds
from tests.monitoring.streams import SHIPPED, Draw, counted, judged, learnt

FEATURES, STREAMS, WINDOWS, ROWS = 10, 4, 200, 200
BUDGET = STREAMS * WINDOWS / SHIPPED.one_in


def clustered(size: int, alike: float) -> Draw:
    """Rows of a cluster share so much of what they are; each of them is as any other row by itself."""

    def draw(random: np.random.Generator, rows: int) -> np.ndarray:
        shared = np.repeat(random.standard_normal(-(-rows // size)), size)[:rows]
        return alike**0.5 * shared + (1 - alike) ** 0.5 * random.standard_normal(rows)

    return draw


def false_alarms(size: int, alike: float) -> int:
    """Windows with an alarm, of all streams."""
    random, draw = np.random.default_rng(seeds.CLUSTERS + size), clustered(size, alike)
    found = 0
    for _ in range(STREAMS):
        reference = learnt(random, FEATURES, draw)
        windows = (counted(reference, lambda _: draw(random, ROWS)) for _ in range(WINDOWS))
        found += sum(any(one.drifting for one in told) for told in judged(reference, windows))
    print(f"{found} of {STREAMS * WINDOWS} windows where {size} rows are {alike:.0%} alike")
    return found


@pytest.mark.heavy
def test_independent_rows_keep_to_the_budget_and_clusters_of_five_do_not():
    assert false_alarms(1, 1.0) <= BUDGET
    pairs, fives, twenties = (false_alarms(size, 1.0) for size in (2, 5, 20))
    assert pairs < fives < twenties
    assert fives > 100 * BUDGET, "or docs/monitoring.md says too much"
    assert false_alarms(5, 0.5) < false_alarms(20, 0.5)
