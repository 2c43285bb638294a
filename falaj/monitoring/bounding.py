"""Figures of quality held to the bounds that a monitor sets: an alert while one lies beyond its bound for sure.

What is beyond is decided by `beyond`, which is pure. Labels are read anew as they come, as the split changes, and otherwise
once an hour; in between what was found is seen again, so that its alert stays.
"""

import logging
from collections.abc import Sequence
from typing import Final

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.operations.labels import Bucket, Figure, ReadQuality
from falaj.monitoring.operations.words import GAP, QualityBound
from falaj.monitoring.quality import QualityService
from falaj.monitoring.raising import Raising
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import labels as label_store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.splits import read_arms
from falaj.serving.store import endpoints as endpoint_store

SURE: Final = 0.999
_AGAIN: Final = 30 * SECOND  # after what failed
log = logging.getLogger(__name__)


@value
class Seen:
    """What was found of a monitor as it was `changed` last, of the revisions of a `split`, with so many batches of labels
    (`places`)."""

    changed: int
    split: int
    places: int
    at: Moment
    sightings: tuple[Sighting, ...]


class Bounding:
    """Under a lease: one control plane at a time looks."""

    def __init__(self, database: Database, quality: QualityService, raising: Raising) -> None:
        self._database, self._quality, self._raising = database, quality, raising
        self._seen: dict[str, Seen] = {}
        self._due: dict[str, int] = {}
        self._listed: Moment | None = None

    def step(self, now: Moment) -> bool:
        """Never more to do at once: all that are due are looked at."""
        if self._listed is None or now - self._listed >= MINUTE:
            bounded = [row.id for row in self._database.read(monitor_store.every) if _is_bounded(row)]
            self._due = {id: self._due.get(id, now) for id in bounded}
            self._seen = {id: one for id, one in self._seen.items() if id in self._due}
            self._listed = now
        for id in [id for id, due in self._due.items() if due <= now]:
            self._due[id] = self._isolated(id, now)
        return False

    def _isolated(self, id: str, now: Moment) -> int:
        """When it is due again. One that cannot be read just now, or is odd, waits; the others do not wait for it."""
        try:
            return self._look(id, now)
        except FalajError as error:
            log.warning("bounds of monitor %s wait: %s", id, error)
        except Exception:
            log.exception("bounds of monitor %s wait", id)
        return now + _AGAIN

    def _look(self, id: str, now: Moment) -> int:
        seen = self._database.read(lambda work: self._found(work, id, now))
        if seen is None:
            return now + MINUTE
        self._seen[id] = seen
        return now + self._database.write(lambda work: self._keep(work, id, seen, now))

    def _found(self, work: UnitOfWork, id: str, now: Moment) -> Seen | None:
        monitor = monitor_store.by_id(work, id)
        endpoint = None if monitor is None else endpoint_store.find_by_id(work, monitor.endpoint)
        if monitor is None or endpoint is None:
            return None
        labelling, known = label_store.labelling(work, endpoint.id), self._seen.get(id)
        places = 0 if labelling is None else int(labelling.places)
        newest = (monitor.changed, endpoint.last_change, places)
        if known is not None and (known.changed, known.split, known.places) == newest and now - known.at < HOUR:
            return known
        sightings = self._sightings(work, monitor, endpoint, now)
        return Seen(changed=int(monitor.changed), split=int(endpoint.last_change), places=places, at=now, sightings=sightings)

    def _sightings(self, work: UnitOfWork, monitor: Found, endpoint: Found, now: Moment) -> tuple[Sighting, ...]:
        project = project_by_id(work, monitor.project)
        if project is None or project.archived:
            return ()
        bounds, context = read_wishes(monitor.wishes).quality, inside(work, project, endpoint.zone, now)
        serving, told = {arm.revision for arm in read_arms(endpoint.arms)}, dict[int, list[Broken]]()
        for days, positive in dict.fromkeys((one.days, one.positive) for one in bounds):
            mine = [one for one in bounds if (one.days, one.positive) == (days, positive)]
            slices = tuple(dict.fromkeys(one.slice for one in mine if one.slice))
            asked = ReadQuality(
                project=project.name, endpoint=endpoint.name, span="whole", days=days, slices=slices, positive=positive
            )
            for bucket in self._quality.buckets(context, endpoint, asked, SURE):
                if bucket.revision in serving:
                    told.setdefault(bucket.revision, []).extend(beyond(bucket, mine))
        return tuple(_sighting(revision, broken) for revision, broken in sorted(told.items()) if broken)

    def _keep(self, work: UnitOfWork, id: str, seen: Seen, now: Moment) -> int:
        """How long until it is looked at again: before an alert that nobody sees any more is over."""
        monitor = monitor_store.by_id(work, id, hold=True)
        endpoint = None if monitor is None else endpoint_store.find_by_id(work, monitor.endpoint)
        project = None if monitor is None else project_by_id(work, monitor.project)
        if monitor is None or endpoint is None or project is None:
            return 0
        if (monitor.changed, endpoint.last_change) != (seen.changed, seen.split):
            return 0
        self._raising.sight(inside(work, project, endpoint.zone, now), monitor, seen.sightings)
        wishes = read_wishes(monitor.wishes)
        return min(MINUTE, max(SECOND, wishes.quiet * wishes.window * SECOND // 2))


@value
class Broken:
    bound: QualityBound
    figure: Figure


def beyond(bucket: Bucket, bounds: Sequence[QualityBound]) -> list[Broken]:
    """The bounds that figures lie beyond with all of their intervals."""
    found = []
    for bound in bounds:
        if bound.figure == GAP:
            figures = [one.difference for one in bucket.gaps if one.slice == bound.slice]
        else:
            figures = [one for one in bucket.figures if one.name.lower() == bound.figure.lower()]
        found += [Broken(bound=bound, figure=one) for one in figures if _is_beyond(one, bound)]
    return found


def _is_beyond(figure: Figure, bound: QualityBound) -> bool:
    return figure.high < bound.limit if bound.side == "at least" else figure.low > bound.limit


def _sighting(revision: int, broken: Sequence[Broken]) -> Sighting:
    names = list(dict.fromkeys(_name(one) for one in broken))
    return Sighting(
        key=f"bound/{revision}",
        kind="quality",
        severity="warning",
        title=f"Revision {revision}: {', '.join(names)} beyond {'its bound' if len(names) == 1 else 'their bounds'}",
        sentences=tuple(_sentence(one) for one in broken),
        facts={"revision": revision, "figures": {_name(one): round(one.figure.at, 4) for one in broken}},
    )


def _name(one: Broken) -> str:
    """Groups are not named: what they are called may be kept from who reads alerts."""
    return one.figure.name if one.bound.figure != GAP else f"{one.figure.name} by {one.bound.slice}"


def _sentence(one: Broken) -> str:
    bound, figure, days = one.bound, one.figure, one.bound.days
    what = "differs between groups by" if bound.figure == GAP else "is"
    return (
        f"{_name(one)} {what} {figure.at:.4g}, between {figure.low:.4g} and {figure.high:.4g} ({SURE:.1%} sure), over "
        f"{figure.rows:,} predictions of the last {f'{days} days' if days > 1 else 'day'}; it is to be {bound.side} "
        f"{bound.limit:g}."
    )


def _is_bounded(monitor: Found) -> bool:
    """One whose wishes cannot be read any is looked at, and fails by itself."""
    try:
        return bool(read_wishes(monitor.wishes).quality)
    except ValueError:
        return True
