"""Batches for trainings by a real torch, in an environment that has one."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.training.promises.loading"


@pytest.fixture(scope="module")
def outcomes():
    return check_elsewhere(PROMISES)


@pytest.mark.parametrize("promise", promises_of(PROMISES))
def test_loading(promise, outcomes):
    assert outcomes[promise] == KEPT, outcomes[promise]
