"""Concept drift: labels that came are taken into each revision's stream of losses, once and in order, and people are told where
they rose. `losing` decides.

While nothing changes, a revision is accused with a chance of at most one in a hundred, however long it serves.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import losing
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.joined import Joined
from falaj.monitoring.labels import LabelService
from falaj.monitoring.losing import RATE, Risen, Standing
from falaj.monitoring.raising import Raising
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.splits import read_arms
from falaj.serving.store import endpoints as endpoint_store

AT_ONCE: Final = 20  # endpoints
BATCHES_AT_ONCE: Final = 20  # of one endpoint
_AGAIN: Final = 30 * SECOND  # after what could not be read just now
_UNWATCHED: Final = 10 * MINUTE
_GRAVE: Final = 0.2  # from so much more on
log = logging.getLogger(__name__)


@value
class _Loaded:
    project: Project
    endpoint: Found
    judged: int
    last: int
    rows: tuple[Joined, ...]
    standings: Mapping[int, Standing]


class Judging:
    """Under a lease: one control plane at a time judges."""

    def __init__(self, database: Database, labels: LabelService, raising: Raising) -> None:
        self._database, self._labels, self._raising = database, labels, raising
        self._later: dict[str, int] = {}  # endpoints that something failed for, and until when

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        self._later = {endpoint: at for endpoint, at in self._later.items() if at > now}
        waiting = self._database.read(lambda work: store.to_judge(work, AT_ONCE, self._later))
        more = len(waiting) == AT_ONCE
        for one in waiting:
            more |= self._isolated(one.endpoint, lambda one=one: self._judge(one, now), now)  # type: ignore[misc]
        for one in self._database.read(lambda work: store.losses_due(work, now, AT_ONCE, self._later)):
            self._isolated(one.endpoint, lambda one=one: self._remind_of(one, now), now)  # type: ignore[misc]
        return more

    def _isolated(self, endpoint: str, look: Callable[[], bool], now: Moment) -> bool:
        """What cannot be read just now, or is odd, waits; the other endpoints do not wait for it."""
        try:
            return look()
        except FalajError as error:
            log.warning("labels of endpoint %s wait: %s", endpoint, error)
        except Exception:
            log.exception("labels of endpoint %s wait", endpoint)
        self._later[endpoint] = now + _AGAIN
        return False

    def _judge(self, labelling: Found, now: Moment) -> bool:
        loaded = self._database.read(lambda work: self._load(work, labelling, now))
        if loaded is None:
            whole = labelling.places
            self._database.write(lambda work: store.change_labelling(work, labelling.endpoint, judged=whole))
            return False
        by_revision: dict[int, list[Joined]] = {}
        for row in loaded.rows:
            if row.drawn:  # or whoever sends what a revision is bad at would have it accused
                by_revision.setdefault(row.revision, []).append(row)
        after = {number: losing.grown(loaded.standings.get(number, Standing()), rows) for number, rows in by_revision.items()}
        self._database.write(lambda work: self._enter(work, loaded, after, now))
        return bool(loaded.last < labelling.places)

    def _load(self, work: UnitOfWork, labelling: Found, now: Moment) -> _Loaded | None:
        endpoint = endpoint_store.find_by_id(work, labelling.endpoint)
        project = None if endpoint is None else project_by_id(work, endpoint.project)
        batches = store.batches_after(work, labelling.endpoint, labelling.judged, BATCHES_AT_ONCE)
        if endpoint is None or project is None or not batches:
            return None
        rows = self._labels.rows(inside(work, project, endpoint.zone, now), endpoint, batches)
        return _Loaded(
            project=project,
            endpoint=endpoint,
            judged=labelling.judged,
            last=batches[-1].place,
            rows=tuple(rows),
            standings={number: losing.decode(text) for number, text in store.losses_of(work, endpoint.id).items()},
        )

    def _enter(self, work: UnitOfWork, loaded: _Loaded, after: Mapping[int, Standing], now: Moment) -> None:
        held = store.labelling(work, loaded.endpoint.id, hold=True)
        if held is None or held.judged != loaded.judged:
            return  # somebody else took these in meanwhile
        monitor = monitor_store.find(work, loaded.endpoint.id)
        store.change_labelling(work, loaded.endpoint.id, judged=loaded.last)
        for revision, standing in sorted(after.items()):
            due = None if standing.risen is None else now + _pause(monitor)
            store.put_losses(work, loaded.endpoint.id, revision, losing.encode(standing), due)
        if monitor is not None:
            context = inside(work, loaded.project, loaded.endpoint.zone, now)
            self._raising.sight(context, monitor, _sightings(after))

    def _remind_of(self, row: Found, now: Moment) -> bool:
        self._database.write(lambda work: self._remind(work, row, now))
        return False

    def _remind(self, work: UnitOfWork, row: Found, now: Moment) -> None:
        """Losses that rose stay so until labels say otherwise, or the revision serves no more: until then the alert goes on."""
        held = store.labelling(work, row.endpoint, hold=True)
        endpoint = endpoint_store.find_by_id(work, row.endpoint)
        project = None if endpoint is None else project_by_id(work, endpoint.project)
        standing = losing.decode(store.losses_of(work, row.endpoint).get(row.revision, ""))
        if held is None or endpoint is None or project is None or standing.risen is None:
            store.put_losses(work, row.endpoint, row.revision, losing.encode(standing), None)
            return
        if row.revision not in {arm.revision for arm in read_arms(endpoint.arms)}:
            store.put_losses(work, row.endpoint, row.revision, losing.encode(replace(standing, risen=None)), None)
            return
        monitor = monitor_store.find(work, endpoint.id)
        store.put_losses(work, row.endpoint, row.revision, losing.encode(standing), now + _pause(monitor))
        if monitor is not None:
            context = inside(work, project, endpoint.zone, now)
            self._raising.sight(context, monitor, _sightings({row.revision: standing}))


def _pause(monitor: Found | None) -> int:
    """Until people are told anew: well before an alert that was not seen is over."""
    if monitor is None:
        return _UNWATCHED
    wishes = read_wishes(monitor.wishes)
    return max(SECOND, min(HOUR, wishes.quiet * wishes.window * SECOND // 2))


def _sightings(standings: Mapping[int, Standing]) -> Sequence[Sighting]:
    return [_sighting(number, one, one.risen) for number, one in sorted(standings.items()) if one.risen is not None]


def _sighting(revision: int, standing: Standing, risen: Risen) -> Sighting:
    since, rows = Moment(risen.since), standing.rows - risen.row
    if standing.kind == "numbers":
        before, after = losing.size_of(risen.before, standing), losing.size_of(risen.after, standing)
        title = f"Revision {revision} is further off than it was"
        what = f"is typically off by about {after:.3g}, and was by about {before:.3g}"
    else:
        title = f"Revision {revision} is wrong more often than it was"
        what = f"is wrong in {risen.after:.1%} of the rows, and was in {risen.before:.1%}"
    return Sighting(
        key=f"quality/{revision}",
        kind="quality",
        severity="critical" if risen.after - risen.before >= _GRAVE else "warning",
        title=title,
        sentences=(
            f"Since predictions of {str(since)[:19]}Z, revision {revision} {what}.",
            f"These are the last {rows:,} of {standing.rows:,} predictions, in the order in which their labels came.",
            f"Where nothing changes, the chance that a revision is ever accused of this is {RATE:.0%} at most.",
        ),
        facts={"revision": revision, "before": round(risen.before, 4), "after": round(risen.after, 4), "rows": rows},
        since=since,
    )
