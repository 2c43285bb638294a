import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.statistics.burning import DAY, Count, Objective, budget, burns, rate

NOW = 40 * DAY
OBJECTIVE = Objective(share=0.999)
MINUTE = 60.0


def steady(bad: float, start: float, end: float) -> list[Count]:
    """A thousand rows a minute, of which so large a share ends badly, from `start` to `end` seconds ago."""
    minutes = range(int(end / MINUTE), int(start / MINUTE))
    return [Count(at=NOW - ago * MINUTE, good=round(1000 * (1 - bad)), bad=round(1000 * bad)) for ago in minutes]


def called(counts: list[Count]) -> list[float]:
    return [burn.rule.rate for burn in burns(counts, OBJECTIVE, NOW) if burn.burns]


def test_spending_just_the_budget_is_a_rate_of_one():
    counts = steady(0.001, 30 * DAY, 0)
    assert rate(counts, OBJECTIVE, NOW, DAY) == pytest.approx(1)
    assert budget(counts, OBJECTIVE, NOW).left == pytest.approx(0, abs=1e-9)


def test_what_burns_fast_wakes_somebody_within_the_hour():
    calm, broken = steady(0.0, 3 * DAY, 3600), steady(0.02, 3600, 0)
    assert called(calm + broken) == [14.4]
    assert called(steady(0.0, 3 * DAY, 1800) + steady(0.02, 1800, 0)) == []  # half an hour of it is not 2 % of the budget yet
    assert called(steady(0.0, 3 * DAY, 1800) + steady(0.03, 1800, 0)) == [14.4]


def test_what_is_over_burns_no_more():
    assert called(steady(0.0, 3 * DAY, 3600) + steady(0.02, 3600, 0)) == [14.4]
    assert called(steady(0.0, 3 * DAY, 3600) + steady(0.02, 3600, 600) + steady(0.0, 600, 0)) == []


def test_what_burns_slowly_is_called_too_and_is_not_urgent():
    slow = burns(steady(0.002, 3 * DAY, 0), OBJECTIVE, NOW)
    assert [(burn.rule.urgent, burn.burns) for burn in slow] == [(True, False), (True, False), (False, True)]


def test_the_budget_that_is_left_lasts_as_long_as_the_last_hour_says():
    found = budget(steady(0.0, 30 * DAY, 3600) + steady(0.03, 3600, 0), OBJECTIVE, NOW)
    assert found.left == pytest.approx(1 - 30 / 720)  # thirty times the budget for an hour of 720
    assert found.lasts == pytest.approx(found.left * 24 * 3600)
    assert budget(steady(0.01, 30 * DAY, 0), OBJECTIVE, NOW).left == pytest.approx(-9)


def test_without_rows_nothing_burns_and_all_is_left():
    assert called([]) == []
    assert budget([], OBJECTIVE, NOW).left == 1.0
    assert budget([], OBJECTIVE, NOW).lasts == math.inf


def test_counts_from_the_future_or_long_ago_do_not_count():
    counts = [Count(at=NOW + 1, good=0, bad=999), Count(at=NOW - 31 * DAY, good=0, bad=999), Count(at=NOW, good=10, bad=0)]
    assert called(counts) == []
    assert budget(counts, OBJECTIVE, NOW).left == 1.0


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 4 * DAY), st.integers(0, 100), st.integers(0, 100)), max_size=30))
def test_the_order_and_the_pieces_of_counts_do_not_matter(pieces):
    counts = [Count(at=NOW - ago, good=good, bad=bad) for ago, good, bad in pieces]
    cut = [Count(at=one.at, good=good, bad=bad) for one in counts for good, bad in ((one.good, 0), (0, one.bad))]
    assert burns(counts, OBJECTIVE, NOW) == burns(cut[::-1], OBJECTIVE, NOW)


def test_an_objective_of_everything_leaves_no_budget_and_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Objective(share=1.0)
