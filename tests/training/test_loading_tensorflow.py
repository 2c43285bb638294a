"""Batches for trainings by a real TensorFlow, in an environment that has one."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

pytestmark = pytest.mark.heavy
PROMISES = "tests.training.promises.loading_tensorflow"


@pytest.fixture(scope="module")
def outcomes():
    return check_elsewhere(PROMISES, needed="tensorflow", client="tensorflow")


@pytest.mark.parametrize("promise", promises_of(PROMISES))
def test_loading_with_tensorflow(promise, outcomes):
    assert outcomes[promise] == KEPT, outcomes[promise]
