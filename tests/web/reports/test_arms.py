"""Arms of an A/B test in a report: what nobody knows is no number, and an interval of nothing is not told."""

import math

from falaj.monitoring.operations.abtests import ArmShown, Difference
from falaj.web.reports.page import _difference


def arm(units: int, difference: Difference | None) -> ArmShown:
    return ArmShown(
        revision=2,
        model="fraud",
        version=2,
        incumbent=difference is None,
        share=5000,
        word="open",
        units=units,
        mean=math.nan,
        difference=difference,
        calls=0,
        expected_units=0.0,
    )


def test_a_difference_that_nobody_knows_is_told_as_that() -> None:
    assert _difference(arm(0, Difference(at=math.nan, low=-1.0, high=1.0))) == "not known"
    assert _difference(arm(9, Difference(at=0.5, low=0.25, high=1.0))) == "0.5 (0.25 to 1)"
    assert _difference(arm(9, None)) == ""
