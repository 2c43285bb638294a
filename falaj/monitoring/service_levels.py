"""Looks at each watched endpoint about once a minute: what its calls did against its objectives, and against other days.

`history` has the calls; `objectives` and `unusual` decide.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import counting, history, objectives, unusual
from falaj.monitoring.history import KEPT_FOR, History, Known
from falaj.monitoring.objectives import Standing
from falaj.monitoring.operations import objectives as declared
from falaj.monitoring.raising import Raising
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import service as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.unusual import Verdict
from falaj.monitoring.views import read_wishes, required_monitor
from falaj.serving.store import endpoints as endpoint_store

log = logging.getLogger(__name__)
AT_ONCE: Final = 20
_AGAIN: Final = 30 * SECOND  # after what failed
_FORGOTTEN_AT_ONCE: Final = 48  # hours


@value
class _Round:
    """When a monitor is looked at next, and how often: before an alert that nobody sees any more is over."""

    due: int
    every: int


class ServiceLevels:
    """`step` is called under a lease, the operation by anybody."""

    def __init__(self, database: Database, raising: Raising) -> None:
        self._database, self._raising, self._history = database, raising, History()
        self._rounds: dict[str, _Round] = {}
        self._listed: Moment | None = None
        self._started: Moment | None = None
        self._verdicts: dict[str, tuple[int, Verdict]] = {}

    def bindings(self) -> list[Bound]:
        return [bind(declared.READ_OBJECTIVES, self.read)]

    def read(self, context: Context, request: declared.ReadObjectives) -> declared.Objectives:
        endpoint, monitor = required_monitor(context, request.endpoint)
        held = read_wishes(monitor.wishes).objectives
        known = self._history.known(context.work, endpoint, held, context.now)
        standings = objectives.standings_of(held, known.past, known.recent, context.now)
        verdict = unusual.judged(known.hours, _last_hour(context.now))
        return declared.Objectives(
            endpoint=endpoint.name,
            items=tuple(objectives.shown(one) for one in standings),
            since=known.since,
            traffic=verdict.sentence,
            unusual=verdict.unusual,
        )

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        self._started = now if self._started is None else self._started
        if self._listed is None or now - self._listed >= MINUTE:
            self._list(now)
        due = sorted((one.due, id) for id, one in self._rounds.items() if one.due <= now)[:AT_ONCE]
        more = [self._isolated(id, now) for _, id in due]
        return any(more) or len(due) == AT_ONCE

    def clean(self, now: Moment) -> bool:
        """Forget what is too old; whether there is more."""

        def forget(work: UnitOfWork) -> bool:
            store.forget_ended(work)
            return store.forget_hours(work, Moment(now - KEPT_FOR), _FORGOTTEN_AT_ONCE) == _FORGOTTEN_AT_ONCE

        return self._database.write(forget)

    def _list(self, now: Moment) -> None:
        every = {row.id: _every(row) for row in self._database.read(monitor_store.every)}
        known = {id: one.due for id, one in self._rounds.items()}
        self._rounds = {id: _Round(due=min(known.get(id, now), now + one), every=one) for id, one in every.items()}
        self._verdicts = {id: one for id, one in self._verdicts.items() if id in every}
        self._listed = now

    def _isolated(self, id: str, now: Moment) -> bool:
        """One that cannot be read just now, or is odd, waits; the others do not wait for it."""
        try:
            return self._look(id, now)
        except FalajError as error:
            log.warning("objectives of monitor %s wait: %s", id, error)
        except Exception:
            log.exception("objectives of monitor %s wait", id)
        self._rounds[id] = _Round(due=now + _AGAIN, every=self._rounds[id].every)
        return False

    def _look(self, id: str, now: Moment) -> bool:
        """Sums up one more day where hours are missing, and is to be called again then; or decides."""
        monitor, endpoint = self._database.read(lambda work: _both(work, id))
        if monitor is None or endpoint is None:
            self._rounds.pop(id, None)
            return False
        if self._database.read(lambda work: history.missing(work, endpoint.id, now)):
            self._database.write(lambda work: history.sum_up(work, endpoint, now))
            return True
        held = read_wishes(monitor.wishes).objectives
        known = self._database.read(lambda work: self._history.known(work, endpoint, held, now))
        standings = objectives.standings_of(held, known.past, known.recent, now)
        verdict = self._verdict(id, known, now)
        self._database.write(lambda work: self._keep(work, endpoint, monitor, standings, verdict, now))
        self._rounds[id] = _Round(due=now + self._rounds[id].every, every=self._rounds[id].every)
        return False

    def _verdict(self, id: str, known: Known, now: Moment) -> Verdict:
        """An hour in which the platform itself was down for a part says nothing of the calls: planes tell of them later."""
        last = _last_hour(now)
        if self._started is None or self._started > (last - 1) * HOUR:
            return Verdict(sentence="")
        remembered = self._verdicts.get(id)
        if remembered is None or remembered[0] != last:
            remembered = self._verdicts[id] = last, unusual.judged(known.hours, last)
        return remembered[1]

    def _keep(
        self, work: UnitOfWork, endpoint: Found, seen: Found, standings: Sequence[Standing], verdict: Verdict, now: Moment
    ) -> None:
        """Nothing where the monitor was changed since it was looked at: the next round decides anew."""
        monitor = monitor_store.find(work, endpoint.id, hold=True)
        project = None if monitor is None else project_by_id(work, monitor.project)
        if monitor is None or monitor.changed != seen.changed or project is None or project.archived:
            return
        store.put_standing(work, monitor.id, now, _written(standings))
        counting.count_rows(work, monitor.id)
        sightings = [*objectives.sightings_of(standings), *unusual.sightings_of(verdict, _last_hour(now))]
        self._raising.sight(inside(work, project, endpoint.zone, now), monitor, sightings)


def _every(monitor: Found) -> int:
    """Of one whose wishes cannot be read any, so that it is looked at, and fails by itself."""
    try:
        wishes = read_wishes(monitor.wishes)
    except ValueError:
        return MINUTE
    return min(MINUTE, max(SECOND, wishes.quiet * wishes.window * SECOND // 2))


def _both(work: UnitOfWork, id: str) -> tuple[Found | None, Found | None]:
    """A monitor and its endpoint."""
    monitor = monitor_store.by_id(work, id)
    return monitor, None if monitor is None else endpoint_store.find_by_id(work, monitor.endpoint)


def _last_hour(now: Moment) -> int:
    """The number of the last whole one; a minute is left for what planes tell late."""
    return (now - MINUTE) // HOUR - 1


def _written(standings: Sequence[Standing]) -> str:
    told: list[dict[str, Any]] = [
        {
            "name": one.objective.kind,
            "left": round(one.budget.left, 6),
            "rates": {str(key): rate for key, rate in one.rates.items()},
        }
        for one in standings
    ]
    return json.dumps(told)
