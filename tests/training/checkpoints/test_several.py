"""Several processes by a real torch and gloo, in an environment that has one."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.training.checkpoints.promises.several"


@pytest.fixture(scope="module")
def outcomes():
    return check_elsewhere(PROMISES)


@pytest.mark.parametrize("promise", promises_of(PROMISES))
def test_several(promise, outcomes):
    assert outcomes[promise] == KEPT, outcomes[promise]
