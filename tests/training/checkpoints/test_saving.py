"""Saving and loading by a real torch, in an environment that has one."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.training.checkpoints.promises.saving"


@pytest.fixture(scope="module")
def outcomes():
    return check_elsewhere(PROMISES)


@pytest.mark.parametrize("promise", promises_of(PROMISES))
def test_saving(promise, outcomes):
    assert outcomes[promise] == KEPT, outcomes[promise]
