"""The GPU benchmark's own logic, in an environment that has torch."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.benchmarks.promises_of_gpu_serving"
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def outcomes():
    return check_elsewhere(PROMISES)


@pytest.mark.parametrize("promise", promises_of(PROMISES))
def test_the_benchmark(promise, outcomes):
    assert outcomes[promise] == KEPT, outcomes[promise]
