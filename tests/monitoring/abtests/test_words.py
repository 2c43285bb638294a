"""Amounts of a test as people read them."""

import pytest

from falaj.monitoring.abtests.words import amount
from falaj.monitoring.operations.abtests import Metric


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (0.1181, "11.8 percentage points"),
        (0.01, "1 percentage point"),
        (0.02, "2 percentage points"),
        (0.0004, "0.04 percentage points"),
        (0.0, "0 percentage points"),
        (-0.01, "-1 percentage point"),
    ],
)
def test_points_are_told_with_one_decimal_and_one_of_them_as_one(difference: float, words: str) -> None:
    assert amount(Metric(), difference) == words
