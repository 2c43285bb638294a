"""The sampler that needs torch, in an environment that has it."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

PROMISES = "tests.training.promises.searching"


@pytest.mark.heavy
def test_what_needs_torch_is_kept():
    outcomes = check_elsewhere(PROMISES)
    assert outcomes == dict.fromkeys(promises_of(PROMISES), KEPT)
