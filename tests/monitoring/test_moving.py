"""How far numbers moved is told as far as bins know it, held against rows whose truth is known."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from falaj.monitoring.moving import mean_words, median_words, quantile
from falaj.monitoring.references import ALWAYS, RANKS, Column, edges_of

AGE = Column(name="age", edges=(0.0, 10.0, 20.0, 30.0), counts={ALWAYS: (50, 50, 50, 50, 50, 0)}, settled=True)
RANDOM = np.random.default_rng(7)
NORMAL = RANDOM.normal(37, 15, 20_000)
DELAYS = np.append(RANDOM.exponential(15, 20_000), 1301.0)


def column_of(rows: NDArray[np.float64]) -> Column:
    column = Column(name="x", edges=edges_of([float(one) for one in np.quantile(rows, RANKS)]), settled=True)
    return column.with_counts(ALWAYS, counted(column, rows))


def counted(column: Column, rows: NDArray[np.float64]) -> tuple[int, ...]:
    places = np.searchsorted(np.array(column.edges), rows, side="right")
    return (*(int(one) for one in np.bincount(places, minlength=column.ordered)), 0)


def told_of(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[str, str]:
    column = column_of(before)
    first, second = counted(column, before), counted(column, after)
    return median_words(column, first, second), mean_words(column, first, second)


def number_in(words: str) -> float:
    return float(re.findall(r"[\d.]+", words)[-1])


def test_a_quantile_lies_within_its_bin_in_proportion_and_beyond_all_edges_there_is_none():
    assert quantile(AGE, (0, 50, 50, 0, 0, 0), 0.5) == 10.0
    assert quantile(AGE, (0, 0, 100, 0, 0, 0), 0.5) == 15.0
    for beyond in ((9, 1, 0, 0, 0, 0), (0, 0, 0, 1, 9, 0), (0, 0, 0, 0, 0, 9)):
        assert quantile(AGE, beyond, 0.5) is None


@pytest.mark.parametrize(("by", "way"), [(45.0, "beyond"), (200.0, "beyond"), (-45.0, "below"), (-200.0, "below")])
def test_what_moved_into_the_outer_bins_moved_at_least_so_far_and_never_less_than_told(by: float, way: str):
    median, mean = told_of(NORMAL, NORMAL + by)
    assert re.match(rf"its median moved from 3\d\.\d+ to {way} -?\d+.* \(by at least \d+", median)
    assert "at least" in mean
    assert 0 < number_in(mean) <= abs(by)
    assert 10 < number_in(median) <= abs(by)


def test_one_extreme_does_not_make_a_move_large():
    late = DELAYS[:-1] + 12.0
    _, mean = told_of(DELAYS, late)
    assert 6 < number_in(mean) <= 12.0


def test_a_small_move_is_told_as_it_is():
    median, mean = told_of(NORMAL, NORMAL * 0.9 + 3.7 + 4.0)
    assert mean.startswith("its values moved by about ")
    assert number_in(mean) == pytest.approx(4.0, abs=0.6)
    assert number_in(median) == pytest.approx(41.0, abs=0.6)


def test_of_a_median_that_stays_in_its_bin_nothing_is_told():
    assert told_of(NORMAL, np.where(NORMAL < 45, NORMAL, NORMAL + 20))[0] == ""


def test_where_all_was_one_number_only_that_it_is_another_is_told():
    constant = np.full(1000, 5.0)
    assert told_of(constant, constant + 3) == ("its median moved from 5 to beyond 5", "")
    assert told_of(constant, constant) == ("", "")


@pytest.mark.parametrize("sign", [1, -1])
def test_no_edge_that_few_rows_made_is_told_and_one_that_many_share_is(sign: int):
    few = np.append(np.sort(RANDOM.normal(50, 10, 999)), 987_654.0) * sign
    column = column_of(few)
    told = [column.edges[place] for place in column.told_edges]
    for edge in told:
        assert min((few <= edge).sum(), (few > edge).sum()) >= 50
    assert "98765" not in str(told)
    assert "98765" not in " ".join(told_of(few, few * 1e6))
    shared = np.repeat([0.0, 7.0], [970, 30]) * sign
    assert {round(column_of(shared).edges[place], 3) for place in column_of(shared).told_edges} <= {0.0}
    assert column_of(few[:60]).told_edges == ()
    names = [name for name, _ in column_of(few[:60]).told_bins()]
    assert names == ["any number", "missing"]
    assert sum(len(bins) for _, bins in column.told_bins()) == column.bins
