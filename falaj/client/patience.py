"""Sending and fetching bytes again in jobs: the platform may be restarted meanwhile. What else jobs call waits by itself."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from falaj.base.errors import TemporaryError

T = TypeVar("T")
_ATTEMPTS: Final = 8
_LONGEST_WAIT: Final = 30.0


def patiently(call: Callable[[], T]) -> T:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return call()
        except TemporaryError as error:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(min(max(error.delay, 0.5) * 2 ** (attempt - 1), _LONGEST_WAIT))
    raise AssertionError("unreachable")
