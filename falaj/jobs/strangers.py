"""Attempts that an engine speaks of and the controller does not hold: late ones that count for nothing any more are stopped,
and what is left of ended ones is removed once their logs are kept."""

import logging
from collections.abc import Mapping
from typing import Final

from falaj.base.clock import MINUTE, SECOND
from falaj.base.errors import FalajError
from falaj.database.work import Database, UnitOfWork
from falaj.jobs.engines.engine import Engine, Seen
from falaj.jobs.store import attempts, controllers
from falaj.jobs.store.tables import Found
from falaj.jobs.turns import Superseded

LOOK_AGAIN: Final = MINUTE  # at one whose log is still to be kept
STOP_AGAIN: Final = 5 * SECOND
MOST: Final = 50_000  # are remembered at a time
log = logging.getLogger(__name__)


class Strangers:
    """Belongs to the controller's thread."""

    def __init__(self, database: Database, engines: Mapping[str, Engine], epoch: int) -> None:
        self._database = database
        self._engines = engines
        self._epoch = epoch
        self._met: list[tuple[str, Seen]] = []
        self._not_before: dict[str, int] = {}  # on the steady clock

    def ended(self, attempt: str, steady: int) -> None:
        """One that this controller saw ending: whoever keeps logs is given time."""
        if len(self._not_before) >= MOST:
            self._not_before = {id: until for id, until in self._not_before.items() if until > steady}
        self._not_before[attempt] = steady + LOOK_AGAIN

    def meet(self, engine: str, seen: Seen, steady: int) -> None:
        if steady >= self._not_before.get(seen.attempt, 0):
            self._met.append((engine, seen))

    def send_away(self, steady: int) -> None:
        """Raises `Superseded` where one of them goes on with another controller's leave."""
        met, self._met = self._met, []
        if not met:
            return
        rows = self._database.read(lambda work: self._rows(work, [seen.attempt for _, seen in met]))
        for engine, seen in met:
            try:
                self._send_away(self._engines[engine], seen, rows.get(seen.attempt), steady)
            except FalajError as error:
                log.warning("attempt %s is still with the engine %s: %s", seen.attempt, engine, error)

    def _rows(self, work: UnitOfWork, ids: list[str]) -> dict[str, Found]:
        if controllers.epoch(work) != self._epoch:
            raise Superseded
        return attempts.with_ids(work, ids)

    def _send_away(self, engine: Engine, seen: Seen, row: Found | None, steady: int) -> None:
        if seen.state != "ended":
            engine.stop(seen.attempt, 0)
            self._not_before[seen.attempt] = steady + STOP_AGAIN
        elif row is not None and row.log is None:
            self._not_before[seen.attempt] = steady + LOOK_AGAIN
        else:
            engine.forget(seen.attempt)
            self._not_before.pop(seen.attempt, None)
