"""Many tricks against many operations: each meets each in the heavy tests, and in the others they take turns.

What refuses a trick is the same code for every operation, so that one which slips through is found by its turn, too.
"""

from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
in_turns = pytest.mark.parametrize(
    "every", [pytest.param(4, id="in turns"), pytest.param(1, id="every operation", marks=pytest.mark.heavy)]
)


def turn(tried: Sequence[T], place: int, every: int) -> Sequence[T]:
    """What the trick at this place is tried on; the next one is tried on others."""
    return tried[place % every :: every]
