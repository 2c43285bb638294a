"""Parts of what a loop does that have nothing to do with each other: what is odd about one is logged, and keeps no other from
its turn."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import FalajError

AGAIN: Final = 10 * SECOND  # after a part that failed
log = logging.getLogger(__name__)


class Parts:
    """Each part does a bounded round, and says whether there may be more to do at once. One that failed waits a while."""

    def __init__(self, parts: Mapping[str, Callable[[Moment], bool]]) -> None:
        self._parts = parts
        self._later: dict[str, int] = {}  # those that failed, and until when they wait

    def step(self, now: Moment) -> bool:
        """Whether any part wants more."""
        more = False
        for name, part in self._parts.items():
            more |= self._stepped(name, part, now)
        return more

    def _stepped(self, name: str, part: Callable[[Moment], bool], now: Moment) -> bool:
        if now < self._later.get(name, 0):
            return False
        try:
            return part(now)
        except FalajError as error:
            log.warning("%s waits: %s", name, error)
        except Exception:
            log.exception("%s failed, and waits", name)
        self._later[name] = now + AGAIN
        return False
