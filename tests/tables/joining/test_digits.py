"""Sums are the true ones, rounded once."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from falaj.tables.joining.digits import Totals, of_floats, of_integers

finite = st.floats(allow_nan=False, allow_infinity=False)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


@given(st.lists(st.lists(finite | st.floats(-1, 1), max_size=12), min_size=1, max_size=6))
def test_a_sum_of_floats_is_the_float_nearest_to_the_true_sum(slots: list[list[float]]) -> None:
    totals = Totals(len(slots))
    for number, values in enumerate(slots):
        at = np.full(len(values), number)
        totals.add(of_floats(np.array(values, np.float64)), at, at + 1)
    found = totals.sums().as_float64(of_floats=True)
    wanted = [_float(sum(map(Fraction, values), Fraction())) for values in slots]
    assert [one.hex() for one in found.tolist()] == [one.hex() for one in wanted]


@given(st.lists(finite, max_size=30))
def test_no_order_and_no_pieces_change_a_bit(values: list[float]) -> None:
    def summed(some: list[float], cut: int) -> str:
        totals = Totals(1)
        for part in (some[:cut], some[cut:]):
            at = np.zeros(len(part), np.int64)
            totals.add(of_floats(np.array(part, np.float64)), at, at + 1)
        one: float = totals.sums().as_float64(of_floats=True)[0]
        return float(one).hex()

    assert summed(values, len(values) // 2) == summed(sorted(values), len(values)) == summed(values[::-1], 1)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12))
def test_a_sum_of_integers_is_exact_and_says_when_it_does_not_fit(values: list[int]) -> None:
    totals, at = Totals(1), np.zeros(len(values), np.int64)
    totals.add(of_integers(np.array(values, np.int64)), at, at + 1)
    sums, beyond = totals.sums().as_int64()
    fits = -(2**63) <= sum(values) < 2**63
    assert bool(beyond[0]) is not fits
    assert not fits or int(sums[0]) == sum(values)
    assert totals.sums().as_float64(of_floats=False)[0] == float(sum(values))


def test_what_leaves_a_window_takes_nothing_else_with_it() -> None:
    totals = Totals(3)
    totals.add(of_floats(np.array([1e300, 0.1, 5e-324])), np.array([0, 0, 1]), np.array([1, 3, 2]))
    assert totals.sums().as_float64(of_floats=True).tolist() == [1e300, 0.1, 0.1]
