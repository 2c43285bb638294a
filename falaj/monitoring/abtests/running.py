"""Tests that go on: what came is taken in, batch by batch in order, and what follows from it is done.

What came is read and decided on outside any transaction; it counts, and is acted on, in one (`entering`), and only if neither
the test nor the split was changed meanwhile. So whoever dies in between leaves everything as it was.
"""

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.database.work import Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring.abtests import standing
from falaj.monitoring.abtests.deciding import Conclusion, Look, concluded, metrics_of
from falaj.monitoring.abtests.entering import Drawn, Stepped, enter, unchanged
from falaj.monitoring.abtests.outcomes import gathered
from falaj.monitoring.abtests.standing import Calls
from falaj.monitoring.abtests.tested import Tested, tested
from falaj.monitoring.joined import Joined
from falaj.monitoring.labels import LabelService
from falaj.monitoring.sealing import inside
from falaj.monitoring.slowness import slow_calls
from falaj.monitoring.store import abtests as store
from falaj.monitoring.store import labels as label_store
from falaj.monitoring.store.tables import Found
from falaj.serving.counts import counts_of
from falaj.serving.permitting import Permits
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import states
from falaj.serving.store import windows as window_store
from falaj.serving.store.windows import FINE
from falaj.serving.views import endpoint_shown, read_options

log = logging.getLogger(__name__)
AT_ONCE: Final = 100
BATCHES_AT_ONCE: Final = 20
_NEVER: Final = Moment(2**63)
_PATIENCE: Final = DAY  # after the end of a test, with labels that cannot be read
_SETTLED: Final = 2 * SECOND  # after its end, nobody adds to a window of calls any more
_AGAIN: Final = 30 * SECOND  # after what could not be read or written just now


class Running:
    """Thread-safe; under a lease, so that one control plane at a time steps."""

    def __init__(self, database: Database, labels: LabelService, gate: Gatekeeper) -> None:
        self._database, self._labels, self._permits = database, labels, Permits(gate)
        self._later: dict[str, int] = {}  # tests that something failed for, and until when

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        after, more = "", False
        self._later = {test: at for test, at in self._later.items() if at > now}
        while rows := self._database.read(lambda work, after=after: store.running(work, after, AT_ONCE)):  # type: ignore[misc]
            for row in rows:
                more |= row.id not in self._later and self._isolated(row, now)
            after = rows[-1].id
        return more

    def clean(self, now: Moment) -> bool:
        """Forget which units counted in tests that are over; whether there is more."""
        return self._database.write(lambda work: store.forget_units(work, 10 * AT_ONCE))

    def _isolated(self, row: Found, now: Moment) -> bool:
        """A test whose labels cannot be read just now, or that is odd, waits; the others do not wait for it."""
        try:
            return self._look(row, now)
        except FalajError as error:
            log.warning("A/B test %s waits: %s", row.id, error)
        except Exception:
            log.exception("A/B test %s waits", row.id)
        self._later[row.id] = now + _AGAIN
        return False

    def _look(self, row: Found, now: Moment) -> bool:
        stepped = self._database.read(lambda work: self._stepped(work, row, now))
        if stepped is None:
            return False
        self._database.write(lambda work: enter(work, row, stepped, self._permits, now))
        return stepped.place - row.place >= BATCHES_AT_ONCE and stepped.found.state == "running"

    def _stepped(self, work: UnitOfWork, row: Found, now: Moment) -> Stepped | None:
        """None where there is nothing to do: nothing came, or the project is put away."""
        endpoint, test = endpoint_store.find_by_id(work, row.endpoint), tested(row)
        if endpoint is None or endpoint.last_change != row.change:
            return unchanged(row, test, Conclusion(of={}, state="overtaken"))
        project = project_by_id(work, row.project)
        if project is None or not states.is_served(work, endpoint.id):
            return None
        counted, seen = row.counted, row.seen
        if counted is None and _is_taken_up(work, endpoint, now):
            counted, seen = now, -(-now // (FINE * SECOND)) * FINE * SECOND
        until = (now - _SETTLED) // (FINE * SECOND) * FINE * SECOND
        calls = test.standing.calls
        if counted is not None and until > seen:
            calls, seen = _with_calls(work, endpoint, test, seen, until), until
        waiting = label_store.batches_after(work, endpoint.id, row.place, BATCHES_AT_ONCE)
        batches = [one for one in waiting if one.at <= row.ends]
        if not batches and now < row.ends and (counted, seen) == (row.counted, row.seen):
            return None
        begun = replace(unchanged(row, test, Conclusion(of={})), counted=counted, seen=seen)
        begun = replace(begun, standing=replace(test.standing, calls=calls))
        return self._with_batches(work, project, endpoint, row, begun, batches, now)

    def _with_batches(
        self,
        work: UnitOfWork,
        project: Project,
        endpoint: Found,
        row: Found,
        stepped: Stepped,
        batches: Sequence[Found],
        now: Moment,
    ) -> Stepped:
        """One after the other, until something is concluded. The time is not over before the last of them was taken in: what
        came before the end may decide, however late it is looked at."""
        test, context = tested(row), inside(work, project, endpoint.zone, now)
        last = _NEVER if len(batches) == BATCHES_AT_ONCE else max([row.place, *(one.place for one in batches)])
        stepped = _looked_at(test, stepped, row, last, now)
        for batch in batches:
            if stepped.found.state != "running" or stepped.found.leaves:
                break
            try:
                rows = self._labels.rows(context, endpoint, [batch])
            except Exception:
                if now < row.ends + _PATIENCE:
                    raise
                log.exception("A/B test %s ends without labels that cannot be read", row.id)
                return replace(stepped, found=concluded(test.look(stepped.standing), now, Moment(row.ends)))
            stepped = _looked_at(test, replace(_taken_in(work, row, test, stepped, rows), place=batch.place), row, last, now)
            stepped = _drawn(test.look(stepped.standing), stepped)
        return stepped


def _looked_at(test: Tested, stepped: Stepped, row: Found, last: int, now: Moment) -> Stepped:
    """With what is concluded at this place; `last` is that of the last labels that came before the end."""
    ends = Moment(row.ends) if stepped.place >= last else _NEVER
    return replace(stepped, found=concluded(test.look(stepped.standing), now, ends))


def _is_taken_up(work: UnitOfWork, endpoint: Found, now: Moment) -> bool:
    """Whether every plane answers by the split: until then its shares are not those of the test."""
    shown = endpoint_shown(work, endpoint, now)
    return shown.planes > 0 and shown.ready == shown.planes


def _with_calls(work: UnitOfWork, endpoint: Found, test: Tested, since: int, until: int) -> dict[int, Calls]:
    calls, objective = dict(test.standing.calls), read_options(endpoint.options).latency_ms
    for window in window_store.since(work, endpoint.id, FINE, since, test.shares):
        if window.at < until:
            found = counts_of(window)
            more = Calls(requests=found.requests, errors=found.errors, slow=slow_calls(found, objective))
            calls[window.revision] = calls.get(window.revision, Calls()) + more
    return calls


def _taken_in(work: UnitOfWork, row: Found, test: Tested, stepped: Stepped, rows: Sequence[Joined]) -> Stepped:
    """Each unit counts once for a metric: by its rows of the batch in which it first came."""
    shares = {one: share for one, share in test.shares.items() if one not in stepped.standing.out}
    followed, counted = [], []
    for place, metric in enumerate(metrics_of(test.design)):
        found = gathered(metric, rows, shares, _NEVER if stepped.counted is None else stepped.counted)
        known = store.counted(work, row.id, place, found.units) | stepped.units[place]
        fresh = {unit: seen for unit, seen in found.units.items() if unit not in known}
        grown = standing.grown(metric, stepped.standing.metrics[place], fresh.values(), test.incumbent, shares)
        followed.append(
            replace(
                grown,
                repeated=grown.repeated + len(found.units) - len(fresh),
                crossed=grown.crossed + found.crossed,
                outside=grown.outside + found.outside,
            )
        )
        counted.append(stepped.units[place] | fresh.keys())
    after = replace(stepped.standing, metrics=tuple(followed), batches=stepped.standing.batches + 1)
    return replace(stepped, standing=after, units=tuple(frozenset(one) for one in counted))


def _drawn(look: Look, stepped: Stepped) -> Stepped:
    """With a point where it is time for one, and always with the last."""
    now = stepped.standing
    if stepped.found.state == "running" and now.batches % now.stride:
        return stepped
    told = []
    for candidate in look.candidates:
        found = look.difference(candidate)
        told.append([end if math.isfinite(end) else None for end in (found.at, found.low, found.high)])
    units = sum(now.metrics[0].units(one) for one in look.shares)
    return replace(stepped, points=(*stepped.points, Drawn(units=units, told=json.dumps(told))))
