"""The training benchmark in an environment that has torch."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.training.promises.benchmark"


@pytest.mark.heavy
def test_the_benchmark_keeps_its_promises():
    outcomes = check_elsewhere(PROMISES)
    assert outcomes == dict.fromkeys(promises_of(PROMISES), KEPT), outcomes
