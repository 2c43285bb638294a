"""How long jobs take, learned from those like them."""

from collections import OrderedDict
from collections.abc import Collection
from statistics import median_low
from typing import Final

from falaj.database.work import UnitOfWork
from falaj.jobs.store import jobs

LAST: Final = 9  # so many are remembered of each kind
_KINDS: Final = 10_000


class Durations:
    """Of the last jobs of each kind that were done. Belongs to one thread; what it forgets is read again."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, list[int]] = OrderedDict()

    def read(self, work: UnitOfWork, kins: Collection[str]) -> None:
        unknown = [kin for kin in dict.fromkeys(kins) if kin and kin not in self._known]
        if not unknown:
            return
        found = jobs.last_durations(work, unknown, LAST)
        for kin in unknown:
            self._known[kin] = found.get(kin, [])
        while len(self._known) > _KINDS:
            self._known.popitem(last=False)

    def expected(self, kin: str) -> int:
        """In microseconds; 0 where none like it was ever done."""
        known = self._known.get(kin)
        return median_low(known) if known else 0

    def last(self, kin: str) -> tuple[int, ...]:
        """What the last ones like it took, newest first."""
        return tuple(self._known.get(kin, ()))

    def learn(self, kin: str, duration: int) -> None:
        if kin and (known := self._known.get(kin)) is not None:
            known.insert(0, duration)
            del known[LAST:]
