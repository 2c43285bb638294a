"""Distances between profiles: small for the same distribution drawn twice, as large as it is for another."""

import numpy as np
import pyarrow as pa
import pytest

from falaj.tables.comparing import compared
from tests.tables.test_profiles import profile

RANDOM = np.random.default_rng(11)


def distance(before, after):
    (found,) = compared(profile(pa.table({"a": before})), profile(pa.table({"a": after})))
    return found.get("distance")


def test_numbers_that_moved_are_told_from_those_that_did_not():
    same, again, moved = RANDOM.normal(0, 1, 50_000), RANDOM.normal(0, 1, 80_000), RANDOM.normal(1, 1, 50_000)
    assert distance(same, again) < 0.03
    # Between normal distributions that are one deviation apart it is 0.3829.
    assert distance(same, moved) == pytest.approx(0.383, abs=0.03)
    assert distance(same, same + 100) == 1.0


def test_words_that_became_rarer_are_seen():
    before = ["red"] * 500 + ["green"] * 500
    assert distance(before, before * 3) == 0.0
    assert distance(before, ["red"] * 900 + ["green"] * 100) == pytest.approx(0.4)
    assert distance(before, ["blue"] * 10) == 1.0
    assert distance([True] * 3 + [False], [True, False]) == pytest.approx(0.25)


def test_nulls_means_and_different_values_are_told():
    before, after = pa.table({"a": [1, 2, None, None]}), pa.table({"a": [1.0, 3.0, 5.0, None], "new": ["x"] * 4})
    (found,) = compared(profile(before), profile(after))
    assert (found["nulls"], found["distinct"], found["mean"]) == ([0.5, 0.25], [2, 3], [1.5, 3.0])


def test_columns_that_both_have_need_values_to_be_compared():
    before = profile(pa.table({"amount": [1, 2], "t": pa.nulls(2, pa.string()), "gone": [1, 2]}))
    after = profile(pa.table({"t": ["x", "y"], "amount": [1, 2], "new": [1, 2]}))
    text, amount = compared(before, after)
    assert (text["name"], "distance" in text) == ("t", False)
    assert (amount["name"], amount["distance"]) == ("amount", 0.0)


def test_types_that_have_nothing_in_common_have_no_distance():
    assert distance(["1", "2"], [1, 2]) is None
