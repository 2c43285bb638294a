"""How sure figures are."""

import numpy as np
import pytest

from falaj.statistics.distributions import normal_quantile
from falaj.statistics.intervals import quantile


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("rows", [100, 400])
def test_what_a_share_keeps_to_lies_in_its_interval_as_often_as_was_promised(share: float, rows: int) -> None:
    random = np.random.default_rng(0)
    found = [quantile(random.standard_normal(rows), share) for _ in range(500)]
    held = sum(one.low <= normal_quantile(share) <= one.high for one in found)
    assert held >= 0.94 * 500
    assert all(one.low <= one.at <= one.high for one in found)


def test_of_few_numbers_the_upper_end_is_the_largest() -> None:
    found = quantile(np.arange(20.0), 0.99)
    assert (found.low < 19.0, found.high) == (True, 19.0)
