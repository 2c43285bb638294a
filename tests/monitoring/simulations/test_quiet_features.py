"""A hundred features that do not change, over 200 windows, against references that are samples themselves: everything that
brings an alarm of drift, each column by itself and rows as a whole, with the budget that each of them has.

One false alarm in 1,000 windows, all together, is one in five such streams. What the evidence says without the floor is counted
as well, so that it is not the floor alone that keeps the promise."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from falaj.monitoring.checking import Apart
from falaj.monitoring.deciding import Outcome
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.pieces import Merged
from falaj.monitoring.references import Reference
from falaj.monitoring.together import NOTHING_YET, due, rules, told, waited
from tests.monitoring.simulations import seeds
from tests.monitoring.simulations.features import (
    Draw,
    Random,
    counted_window,
    few_values,
    gappy,
    gappy_kinds,
    heavy,
    kinds,
    normal,
    sampled_reference,
    sampled_window,
    skewed,
)
from tests.monitoring.streams import LEARNT, SHIPPED, judged

FEATURES, WINDOWS, ROWS = 100, 200, 200
BUDGET = WINDOWS / SHIPPED.one_in  # of a stream
OF_COLUMNS, OF_ROWS = rules(Wishes())
ALL = [normal] * 40 + [heavy] * 10 + [skewed] * 10 + [few_values] * 10 + [kinds] * 15 + [gappy] * 10 + [gappy_kinds] * 5


def stream(random: Random, draws: Sequence[Draw], rows: int, windows: int = WINDOWS) -> tuple[bool, bool]:
    """Whether there was any alarm; and any by the evidence alone."""
    against = sampled_reference(random, draws, rows)
    drawn = [[draw(random, ROWS) for draw in draws] for _ in range(windows)]
    found: list[Outcome] = []
    for outcomes in judged(against, (counted_window(against, values) for values in drawn), OF_COLUMNS):
        assert len(outcomes) == len(draws)
        found += outcomes
    apart = list(rows_told(against, (sampled_window(against, values) for values in drawn)))
    assert len(apart) == windows // 3
    alarm = any(one.drifting for one in found) or any(one.drifting for one in apart)
    return alarm, any(one.evidence >= 1 for one in found) or any(one.chance * OF_ROWS.one_in <= 1 for one in apart)


def rows_told(against: Reference, windows: Iterable[Merged]) -> Iterator[Apart]:
    """Each time that there are rows enough, as a monitor waits for them."""
    kept, lately = NOTHING_YET, list[Merged]()
    for window in windows:
        lately.append(window)
        if back := due(kept, window, against):
            kept = told(against, lately[-back:], OF_ROWS)
            yield kept.last
        else:
            kept = waited(kept, window)


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
