"""Frames, Arrow and tuning, where their libraries are."""

import pytest

from tests.training.elsewhere import KEPT, check_elsewhere, promises_of

MODULE = "tests.training.classic.promises.frames"


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    return check_elsewhere(MODULE)


@pytest.mark.parametrize("promise", promises_of(MODULE))
def test_it_keeps_the_promise(promise, kept):
    assert kept[promise] == KEPT
