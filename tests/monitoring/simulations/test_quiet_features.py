"""A hundred features that do not change, over 200 windows, against references that are samples themselves.

One false alarm in 1,000 windows, all features together, is one in five such streams. What the evidence says without the floor
is counted as well, so that it is not the floor alone that keeps the promise."""

from collections.abc import Sequence

import numpy as np
import pytest

from falaj.monitoring.deciding import Outcome
from falaj.monitoring.references import Reference
from tests.monitoring.simulations import seeds
from tests.monitoring.simulations.features import (
    Draw,
    Random,
    few_values,
    gappy,
    gappy_kinds,
    heavy,
    kinds,
    normal,
    reference,
    skewed,
    window,
)
from tests.monitoring.streams import LEARNT, SHIPPED, judged

FEATURES, WINDOWS, ROWS = 100, 200, 200
BUDGET = WINDOWS / SHIPPED.one_in  # of a stream
ALL = [normal] * 40 + [heavy] * 10 + [skewed] * 10 + [few_values] * 10 + [kinds] * 15 + [gappy] * 10 + [gappy_kinds] * 5


def stream(random: Random, draws: Sequence[Draw], rows: int, windows: int = WINDOWS) -> tuple[bool, bool]:
    """Whether there was any alarm; and any by the evidence alone."""
    against: Reference = reference(random, draws, rows)
    told: list[Outcome] = []
    for outcomes in judged(against, (window(random, against, draws, ROWS) for _ in range(windows))):
        assert len(outcomes) == len(draws)
        told += outcomes
    return any(one.drifting for one in told), any(one.evidence >= 1 for one in told)


@pytest.mark.parametrize("rows", [LEARNT, 500])
def test_a_hundred_features_of_all_kinds_raise_no_more_than_the_budget(rows):
    random = np.random.default_rng(seeds.QUIET + rows)
    assert stream(random, ALL, rows) == (False, False)


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rows", [LEARNT, 500])
@pytest.mark.parametrize(
    ("seed", "draws"),
    [
        (seeds.QUIET_NUMBERS, [normal] * FEATURES),
        (seeds.QUIET_TAILS, [heavy, skewed] * (FEATURES // 2)),
        (seeds.QUIET_KINDS, [kinds, few_values] * (FEATURES // 2)),
        (seeds.QUIET_MISSING, [gappy, gappy_kinds] * (FEATURES // 2)),
    ],
    ids=["numbers", "heavy tails", "kinds", "missing"],
)
def test_over_many_streams_family_wise_false_alarms_keep_to_the_budget(seed, draws, rows):
    random, streams = np.random.default_rng(seed + rows), 10
    found = [stream(random, draws, rows) for _ in range(streams)]
    alarmed, beyond = sum(alarm for alarm, _ in found), sum(evidence for _, evidence in found)
    print(f"{alarmed} of {streams} streams had an alarm, {beyond} by the evidence alone")
    assert alarmed <= BUDGET * streams
    assert beyond <= BUDGET * streams
